// The demo checkpoint's base on the CPU backend, with steps of up to four rows.
#pragma once

#include <memory>

#include "core/backends/cpu/cpu_backend.h"
#include "tests/core/pipeline/rig.h"

namespace latentd::pipeline {

// Tests of pictures of SmallSpec's size, which share one rig.
class FourRowsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    rig_ = std::make_unique<Rig>(LoadOptions{.base = testing::kDemoBase, .row_counts = {1, 2, 4}},
                                 "", backends::cpu::CpuBackend::Create().value());
    rig_->MakeSteps({64, 72}, {1, 2, 4});
  }
  static void TearDownTestSuite() { rig_.reset(); }

  static std::unique_ptr<Picture> Begin(const PictureSpec& spec) { return rig_->BeginSteps(spec); }

  std::unique_ptr<device::Stream> stream_ = device::Host().NewStream(SystemClock()).value();
  static inline std::unique_ptr<Rig> rig_;
};

}  // namespace latentd::pipeline
