// A lane of the demo checkpoint's base on the CPU backend, with steps that a test refuses.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
#include "core/pipeline/lanes/step_lane.h"
#include "tests/core/pipeline/rig.h"

namespace latentd::pipeline {

enum class Refused { kBind, kEnqueue };
using Refuse = std::function<absl::Status(int rows, Refused what)>;

// An executable of `rows` rows that asks `refuse` before each run.
class RefusingExecutable : public backends::Executable {
 public:
  RefusingExecutable(ExecutablePointer inner, int rows, Refuse refuse)
      : inner_(std::move(inner)), rows_(rows), refuse_(std::move(refuse)) {}

  const backends::ExecutableInfo& info() const override { return inner_->info(); }
  device::Device& device() const override { return inner_->device(); }
  absl::StatusOr<std::unique_ptr<backends::Session>> Bind(
      absl::Span<const device::ConstBuffer> inputs,
      absl::Span<const device::Buffer> outputs) override {
    RETURN_IF_ERROR(refuse_(rows_, Refused::kBind));
    ASSIGN_OR_RETURN(auto bound, inner_->Bind(inputs, outputs));
    return std::make_unique<RefusingSession>(*this, std::move(bound));
  }

 private:
  class RefusingSession : public backends::Session {
   public:
    RefusingSession(const RefusingExecutable& executable, std::unique_ptr<backends::Session> inner)
        : executable_(executable), inner_(std::move(inner)) {}
    absl::Status Enqueue(device::Stream& stream) override {
      RETURN_IF_ERROR(executable_.refuse_(executable_.rows_, Refused::kEnqueue));
      return inner_->Enqueue(stream);
    }

   private:
    const RefusingExecutable& executable_;
    const std::unique_ptr<backends::Session> inner_;
  };

  const ExecutablePointer inner_;
  const int rows_;
  const Refuse refuse_;
};

inline PictureSpec WithGuidance(PictureSpec spec, double scale) {
  spec.guidance_scale = scale;
  return spec;
}

class StepLaneTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    rig_ = std::make_unique<Rig>(LoadOptions{.base = testing::kDemoBase}, "",
                                 backends::cpu::CpuBackend::Create().value());
  }
  static void TearDownTestSuite() { rig_.reset(); }

  static PictureSpec Spec(const std::string& prompt, int steps, uint64_t seed) {
    PictureSpec spec = SmallSpec();
    spec.prompt = prompt;
    spec.num_inference_steps = steps;
    spec.seed = seed;
    return spec;
  }

  static std::unique_ptr<Picture> Begin(const PictureSpec& spec) { return rig_->BeginSteps(spec); }

  // `refuse`: asked before steps are bound and enqueued.
  static StepLane::Executables StepsOf(const std::vector<int>& row_counts,
                                       const Refuse& refuse = nullptr,
                                       DeepFeatures deep = DeepFeatures::kNone) {
    ModelGraphs& graphs = rig_->pipeline->first().graphs();
    StepLane::Executables executables;
    for (int rows : row_counts) {
      const StepShape shape{.rows = rows, .height = 72 / 8, .width = 64 / 8, .deep = deep};
      rig_->kept.push_back(graphs.Find({.shape = shape}).value());
      executables[rows] = graphs.Get(rig_->kept.back()).value();
      if (refuse == nullptr) continue;
      executables[rows] = std::make_shared<RefusingExecutable>(executables[rows], rows, refuse);
    }
    return executables;
  }
  static std::shared_ptr<StepLane> Lane(const std::vector<int>& row_counts,
                                        const Refuse& refuse = nullptr) {
    const StepLane::Executables executables = StepsOf(row_counts, refuse);
    const auto lane =
        StepLane::Create(*executables.begin()->second, executables.rbegin()->first).value();
    lane->Add(executables);
    return lane;
  }

  static LaneRows RowsOf(const Picture& picture) {
    const double guidance = *picture.request->spec().guidance_scale;
    return {.rows = picture.rows(),
            .latents = picture.latents,
            .schedule = &picture.stage().schedule(),
            .values = StepValues(*picture.request->conditioning[0],
                                 picture.rows() == 2 ? guidance : 1, /*guidance_rescale=*/0)};
  }

  LanePlace Join(StepLane& lane, const Picture& picture) {
    return lane.Join(RowsOf(picture), *stream_).value().value();
  }

  void Step(StepLane& lane, int count, int computed_rows) {
    for (int i = 0; i < count; ++i) {
      ASSERT_OK_AND_ASSIGN(const StepLane::Evaluation step, lane.Step(*stream_, {}));
      ASSERT_OK(step.status);
      EXPECT_EQ(step.computed_rows, computed_rows);
    }
  }

  // Its rows are free afterwards.
  std::vector<float> Leave(LanePlace place) {
    const device::Buffer latents = device::Buffer::Allocate(device::DType::kF32, {1, 4, 9, 8});
    const device::Buffer finite = device::Buffer::Allocate(device::DType::kU8, {1});
    EXPECT_OK(place.lane()->Read(place, latents, finite, *stream_));
    EXPECT_OK(stream_->Synchronize());
    EXPECT_EQ(finite.as<uint8_t>()[0], 1);
    return ValuesOf(latents);
  }

  std::unique_ptr<device::Stream> stream_ = device::Host().NewStream(SystemClock()).value();
  static inline std::unique_ptr<Rig> rig_;
};

}  // namespace latentd::pipeline
