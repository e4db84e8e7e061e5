// Addresses of lanes on a device that keeps freed memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
#include "core/pipeline/lanes/step_lane.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/keeping_device.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;
using device::Place;
using device::Shape;

// Addresses that its sessions were bound to, by port.
using Addresses = std::map<std::string, const void*>;

class NotingExecutable : public backends::Executable {
 public:
  explicit NotingExecutable(ExecutablePointer inner) : inner_(std::move(inner)) {}

  const backends::ExecutableInfo& info() const override { return inner_->info(); }
  device::Device& device() const override { return inner_->device(); }
  absl::StatusOr<std::unique_ptr<backends::Session>> Bind(
      absl::Span<const device::ConstBuffer> from, absl::Span<const Buffer> to) override {
    Addresses& addresses = bound.emplace_back();
    for (size_t i = 0; i < from.size(); ++i) addresses[inputs()[i].name] = from[i].data();
    for (size_t i = 0; i < to.size(); ++i) addresses[outputs()[i].name] = to[i].data();
    return inner_->Bind(from, to);
  }

  std::vector<Addresses> bound;

 private:
  const ExecutablePointer inner_;
};

class LaneMemoryTest : public ::testing::Test {
 protected:
  std::shared_ptr<NotingExecutable> Steps(Size size) {
    ModelGraphs& graphs = rig_.pipeline->first().graphs();
    rig_.kept.push_back(graphs.Find({.shape = {2, size.height / 8, size.width / 8}}).value());
    return std::make_shared<NotingExecutable>(graphs.Get(rig_.kept.back()).value());
  }

  // A picture in a lane of its own, of four rows: its latents. They lie on, as others' do.
  std::vector<float> Draw(const std::shared_ptr<NotingExecutable>& steps, const PictureSpec& spec) {
    const auto picture = rig_.Start(spec);
    EXPECT_OK(testing::RunUnit(*picture));
    const auto lane = StepLane::Create(*steps, 4).value();
    lane->Add({{2, steps}});
    const LanePlace place = *lane->Join({.rows = 2,
                                         .latents = picture->latents,
                                         .schedule = &picture->stage().schedule(),
                                         .values = StepValues(*picture->request->conditioning[0],
                                                              /*guidance_scale=*/5, 0)},
                                        *stream_)
                                 .value();
    for (int i = 0; i < *spec.num_inference_steps; ++i) EXPECT_OK(lane->Step(*stream_, {})->status);
    others_.push_back(
        device_.Allocate(DType::kF32, picture->latents.shape(), Place::kDevice).value());
    others_.push_back(device_.Allocate(DType::kU8, {1}, Place::kDevice).value());
    EXPECT_OK(lane->Read(place, others_[others_.size() - 2], others_.back(), *stream_));
    return ValuesOf(others_[others_.size() - 2]);
  }

  testing::KeepingDevice device_;
  const Rig rig_{{.base = testing::kDemoBase},
                 "",
                 backends::cpu::CpuBackend::Create({.device = &device_}).value()};
  const std::unique_ptr<device::Stream> stream_ = device_.NewStream(SystemClock()).value();
  std::vector<Buffer> others_;
};

TEST_F(LaneMemoryTest, TheNextLaneLiesWhereTheLastOneDidAndBeginsAfresh) {
  PictureSpec spec = SmallSpec(), other = SmallSpec();
  other.seed = 11;
  other.prompt = "a green star";
  const auto steps = Steps({64, 72});
  const std::vector<float> first = Draw(steps, spec);
  EXPECT_NE(Draw(steps, other), first);
  EXPECT_EQ(Draw(steps, spec), first);
  ASSERT_EQ(steps->bound.size(), 3u);
  EXPECT_EQ(steps->bound[1], steps->bound[0]);
  EXPECT_EQ(steps->bound[2], steps->bound[0]);
}

// The largest part of a lane's memory depends on no size.
TEST_F(LaneMemoryTest, PromptsLieWhereThoseOfAnotherSizeDid) {
  PictureSpec spec = SmallSpec(), wide = SmallSpec();
  wide.width = 128;
  const auto steps = Steps({64, 72}), wide_steps = Steps({128, 72});
  Draw(steps, spec);
  Draw(wide_steps, wide);
  Addresses before = steps->bound.at(0), after = wide_steps->bound.at(0);
  const auto is_of_prompt = [](const auto& port) { return port.first.starts_with("request."); };
  std::erase_if(before, std::not_fn(is_of_prompt));
  std::erase_if(after, std::not_fn(is_of_prompt));
  EXPECT_FALSE(after.empty());
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace latentd::pipeline
