#include "core/pipeline/step_lane.h"

#include <memory>
#include <string>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/on_host.h"
#include "tests/support/separate_device.h"

namespace latentd::pipeline {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::FloatNear;
using ::testing::Pointwise;

constexpr float kTolerance = 1e-4f;  // rows of other matrices are added up in another order

class StepLaneTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { rig_ = new Rig({.base = testing::kDemoBase}); }
  static void TearDownTestSuite() { delete rig_; }

  static PictureSpec Spec(const std::string& prompt, int steps, uint64_t seed) {
    PictureSpec spec = SmallSpec();
    spec.prompt = prompt;
    spec.num_inference_steps = steps;
    spec.seed = seed;
    return spec;
  }

  // A picture whose first step is next.
  static std::unique_ptr<Picture> Begin(const PictureSpec& spec) {
    auto picture = rig_->Start(spec);
    EXPECT_OK(testing::RunUnit(*picture));
    EXPECT_EQ(picture->next, UnitKind::kStep);
    return picture;
  }

  static std::unique_ptr<StepLane> Lane(const std::vector<int>& row_counts) {
    ModelGraphs& graphs = rig_->pipeline->base().graphs();
    StepLane::Executables executables;
    for (int rows : row_counts) {
      rig_->kept.push_back(graphs.Step({rows, 72 / 8, 64 / 8}).value());
      executables[rows] = graphs.Get(rig_->kept.back()).value();
    }
    return StepLane::Create(executables).value();
  }

  static LaneRows RowsOf(const Picture& picture) {
    return {.rows = picture.rows(),
            .latents = picture.latents,
            .schedule = &picture.stage().schedule,
            .request = *picture.request->conditioning[0],
            .guidance_scale = static_cast<float>(*picture.request->spec.guidance_scale)};
  }

  static std::vector<float> Leave(StepLane& lane, int first, device::Stream& stream) {
    const device::Buffer latents = device::Buffer::Allocate(device::DType::kF32, {1, 4, 9, 8});
    const device::Buffer finite = device::Buffer::Allocate(device::DType::kU8, {1});
    EXPECT_OK(lane.Leave(first, latents, finite, stream));
    EXPECT_EQ(finite.as<uint8_t>()[0], 1);
    return ValuesOf(latents);
  }

  std::unique_ptr<device::Stream> stream_ = device::Host().NewStream(SystemClock()).value();
  static Rig* rig_;
};

Rig* StepLaneTest::rig_ = nullptr;

// The second joins when the first has had two steps, goes on alone, and had fewer rows at the end
// than in between.
TEST_F(StepLaneTest, PicturesSideBySideAreWhatTheyAreAlone) {
  const PictureSpec one = Spec("a red circle on a blue background", 4, 3);
  PictureSpec two = Spec("a green star on a white background", 5, 4);
  two.guidance_scale = 7;
  const auto first = Begin(one), second = Begin(two);
  const auto lane = Lane({2, 4});
  ASSERT_OK_AND_ASSIGN(const int first_row, lane->Join(RowsOf(*first), *stream_));
  for (int i = 0; i < 2; ++i) ASSERT_OK(lane->Step(*stream_));
  ASSERT_OK_AND_ASSIGN(const int second_row, lane->Join(RowsOf(*second), *stream_));
  EXPECT_EQ(second_row, first_row + 2);
  for (int i = 0; i < 2; ++i) ASSERT_OK(lane->Step(*stream_));
  EXPECT_THAT(Leave(*lane, first_row, *stream_),
              Pointwise(FloatNear(kTolerance), rig_->Latents(one)));
  for (int i = 0; i < 3; ++i) ASSERT_OK(lane->Step(*stream_));
  EXPECT_THAT(Leave(*lane, second_row, *stream_),
              Pointwise(FloatNear(kTolerance), rig_->Latents(two)));
}

TEST_F(StepLaneTest, GivesRowsThatWereLeftToTheNext) {
  const auto picture = Begin(Spec("a red circle", 4, 3));
  const auto lane = Lane({4});
  ASSERT_OK_AND_ASSIGN(const int first, lane->Join(RowsOf(*picture), *stream_));
  ASSERT_OK(lane->Join(RowsOf(*picture), *stream_));
  EXPECT_THAT(lane->Join(RowsOf(*picture), *stream_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "no 2 of the lane's 4 rows are free together"));
  ASSERT_OK(lane->Step(*stream_));
  Leave(*lane, first, *stream_);
  ASSERT_OK_AND_ASSIGN(const int again, lane->Join(RowsOf(*picture), *stream_));
  EXPECT_EQ(again, first);
}

// What a picture left behind does not reach the one that comes after it.
TEST_F(StepLaneTest, BeginsAfresh) {
  const PictureSpec spec = Spec("a red circle", 4, 3);
  const auto picture = Begin(spec);
  const auto lane = Lane({2});
  for (int steps : {1, 4}) {
    ASSERT_OK_AND_ASSIGN(const int row, lane->Join(RowsOf(*picture), *stream_));
    for (int i = 0; i < steps; ++i) ASSERT_OK(lane->Step(*stream_));
    const std::vector<float> latents = Leave(*lane, row, *stream_);
    if (steps == 4) {
      EXPECT_EQ(latents, rig_->Latents(spec));
    }
  }
}

// The host is ahead of the device by all steps that there are, and has two buffers for their noise.
TEST(StepLaneOnASeparateDeviceTest, DrawsNoNoiseOverWhatTheDeviceHasYetToCopy) {
  testing::SeparateDevice device;
  const Rig rig({.base = testing::kDemoBase}, "",
                backends::cpu::CpuBackend::Create({.device = &device}).value());
  PictureSpec spec = SmallSpec();
  spec.scheduler.name = "euler_ancestral";
  spec.num_inference_steps = 6;
  const auto picture = rig.Start(spec);
  ASSERT_OK(testing::RunUnit(*picture));
  ASSERT_EQ(picture->next, UnitKind::kStep);
  StepLane& lane = *picture->place->lane;
  const int row = picture->place->first_row;
  const auto stream = device.NewStream(SystemClock()).value();
  int draws = 0;
  for (const auto& step : picture->stage().schedule.steps) {
    if (step.draws_noise) {
      ASSERT_OK(lane.DrawNoise(row, picture->generator, *stream));
      ++draws;
    }
    ASSERT_OK(lane.Step(*stream));
  }
  EXPECT_GT(draws, 2);
  const device::Buffer latents = device::Buffer::Allocate(device::DType::kF32, {1, 4, 9, 8});
  const device::Buffer finite = device::Buffer::Allocate(device::DType::kU8, {1});
  ASSERT_OK(lane.Leave(row, latents, finite, *stream));
  ASSERT_OK(stream->Synchronize());
  const auto drawn = rig.Finish(spec);
  ASSERT_OK_AND_ASSIGN(const device::Buffer expected, testing::CopyToHost(device, drawn->latents));
  EXPECT_EQ(ValuesOf(latents), ValuesOf(expected));
}

TEST_F(StepLaneTest, HoldsAsManyBytesAsItSays) {
  EXPECT_EQ(
      Lane({1, 2})->bytes(),
      StepLane::Bytes({2, 72 / 8, 64 / 8}, 4, rig_->pipeline->base().graphs().request_bytes()));
}

}  // namespace
}  // namespace latentd::pipeline
