// The small checkpoint of Stable Video Diffusion that the video cases are drawn with: five-frame
// videos of 64x64 take a moment.
#pragma once

#include <memory>
#include <string>

#include "tests/golden/synthetic_checkpoint.h"
#include "tests/support/source_directory.h"

namespace latentd::golden {

// Written once for all tests of the process.
inline const std::string& VideoCheckpoint() {
  static const std::unique_ptr<const SyntheticCheckpoint> written =
      SyntheticCheckpoint::Write(
          {.cases = ::latentd::testing::SourcePath("tests/golden"),
           .checkpoint = ::latentd::testing::SourcePath("deploy/demo-model")},
          "svd")
          .value();
  return written->path();
}

}  // namespace latentd::golden
