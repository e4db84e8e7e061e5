#include "core/pipeline/lanes/step_lane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/pipeline/step_lane_rig.h"
#include "tests/support/on_host.h"
#include "tests/support/separate_device.h"

namespace latentd::pipeline {
namespace {

using ::latentd::testing::StatusIs;
// Byte for byte: the CPU backend computes a row alike, however many others there are. The second
// joins when the first has had two steps, goes on alone, and moves to where that was.
TEST_F(StepLaneTest, PicturesSideBySideAreWhatTheyAreAlone) {
  const PictureSpec one = Spec("a red circle on a blue background", 4, 3);
  PictureSpec two = WithGuidance(Spec("a green star on a white background", 5, 4), 7);
  const PictureSpec three = WithGuidance(Spec("a black square", 3, 5), 1);
  const auto first = Begin(one), second = Begin(two), third = Begin(three);
  const auto lane = Lane({1, 2, 4, 8});
  auto first_place = Join(*lane, *first);
  Step(*lane, 2, /*computed_rows=*/2);
  auto second_place = Join(*lane, *second);
  Step(*lane, 1, 4);
  auto third_place = Join(*lane, *third);
  EXPECT_EQ(lane->rows_taken(), 5);
  Step(*lane, 1, 8);
  EXPECT_EQ(Leave(std::move(first_place)), rig_->Latents(one));
  Step(*lane, 2, 4);
  EXPECT_EQ(Leave(std::move(third_place)), rig_->Latents(three));
  Step(*lane, 1, 2);
  EXPECT_EQ(Leave(std::move(second_place)), rig_->Latents(two));
  EXPECT_EQ(lane->rows_taken(), 0);
}

TEST_F(StepLaneTest, GivesRowsThatWereLeftToTheNext) {
  const auto picture = Begin(Spec("a red circle", 4, 3));
  const auto lane = Lane({2, 4});
  {
    const LanePlace first = Join(*lane, *picture), second = Join(*lane, *picture);
    ASSERT_OK_AND_ASSIGN(const auto third, lane->Join(RowsOf(*picture), *stream_));
    EXPECT_FALSE(third.has_value());
    Step(*lane, 1, 4);
  }
  const LanePlace again = Join(*lane, *picture);
  Step(*lane, 1, 2);
}

// Free rows in between others need not adjoin.
TEST_F(StepLaneTest, TakesRowsThatAreFreeWhereverTheyAre) {
  const PictureSpec unguided = WithGuidance(Spec("a black square", 3, 5), 1);
  const PictureSpec guided = Spec("a red circle", 3, 3);
  const auto narrow = Begin(unguided), wide = Begin(guided);
  const auto lane = Lane({1, 4});
  std::vector<LanePlace> places;
  for (int i = 0; i < 4; ++i) places.push_back(Join(*lane, *narrow));
  std::vector<LanePlace> kept;
  kept.push_back(std::move(places[1]));
  kept.push_back(std::move(places[3]));
  places.clear();
  auto place = Join(*lane, *wide);
  Step(*lane, 3, 4);
  EXPECT_EQ(Leave(std::move(place)), rig_->Latents(guided));
  EXPECT_EQ(Leave(std::move(kept[0])), rig_->Latents(unguided));
}

// A value that is not finite stays in its own row, and that row's flag reports it.
TEST_F(StepLaneTest, ARowThatIsNotFiniteLeavesTheOthersAsTheyAre) {
  const PictureSpec sound = Spec("a green star on a white background", 4, 4);
  const auto broken = Begin(Spec("a red circle", 4, 3)), beside = Begin(sound);
  broken->latents.as<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  const auto lane = Lane({2, 4});
  const LanePlace place = Join(*lane, *broken);
  auto other = Join(*lane, *beside);
  Step(*lane, 4, 4);
  const device::Buffer latents = device::Buffer::Allocate(device::DType::kF32, {1, 4, 9, 8});
  const device::Buffer finite = device::Buffer::Allocate(device::DType::kU8, {1});
  ASSERT_OK(lane->Read(place, latents, finite, *stream_));
  ASSERT_OK(stream_->Synchronize());
  EXPECT_EQ(finite.as<uint8_t>()[0], 0);
  EXPECT_EQ(Leave(std::move(other)), rig_->Latents(sound));
}

// A picture's leftovers do not reach the next one in its rows.
TEST_F(StepLaneTest, BeginsAfresh) {
  const PictureSpec spec = Spec("a red circle", 4, 3);
  const auto picture = Begin(spec);
  const auto lane = Lane({2});
  for (int steps : {1, 4}) {
    auto place = Join(*lane, *picture);
    Step(*lane, steps, 2);
    const std::vector<float> latents = Leave(std::move(place));
    if (steps == 4) {
      EXPECT_EQ(latents, rig_->Latents(spec));
    }
  }
}

// Refuses so large a piece of memory.
class SmallDevice : public testing::SeparateDevice {
 public:
  absl::StatusOr<device::Buffer> Allocate(device::DType dtype, device::Shape shape,
                                          device::Place place) override {
    const int64_t bytes = shape.elements() * device::SizeOf(dtype);
    if (place == device::Place::kDevice && bytes >= refused_bytes) {
      return absl::ResourceExhaustedError("too large");
    }
    return SeparateDevice::Allocate(dtype, std::move(shape), place);
  }
  int64_t refused_bytes = std::numeric_limits<int64_t>::max();
};

// A picture that finds no rows waits for the next step, and none overtakes it.
TEST(LanesTest, HaveFewerRowsWhereThereIsNoMemoryForAll) {
  SmallDevice device;
  const Rig rig({.base = testing::kDemoBase, .row_counts = {2, 4}}, "",
                backends::cpu::CpuBackend::Create({.device = &device}).value());
  for (int rows : {1, 2, 4}) {
    rig.kept.push_back(
        rig.pipeline->first().graphs().Find({.shape = {rows, 72 / 8, 64 / 8}}).value());
    ASSERT_OK(rig.pipeline->first().graphs().Get(rig.kept.back()));
  }
  const PictureSpec guided = SmallSpec(), unguided = WithGuidance(SmallSpec(), 1);
  const auto first = rig.Start(guided), second = rig.Start(guided), third = rig.Start(unguided);
  for (Picture* picture : {first.get(), second.get(), third.get()}) {
    ASSERT_OK(testing::RunUnit(*picture));
    EXPECT_EQ(picture->most_rows(), 4);
  }
  device.refused_bytes = 3 * rig.pipeline->first().graphs().request_bytes();
  const auto stream = device.NewStream(SystemClock()).value();
  Lanes lanes;
  std::vector<PendingUnit> units;
  const auto step = [&](std::vector<Picture*> pictures) {
    units.push_back(EnqueueUnit(pictures, lanes, *stream).value());
    std::vector<bool> waits;
    for (const UnitPart& part : units.back().parts) waits.push_back(part.waits);
    return waits;
  };
  const std::vector<bool> others_wait = {false, true, true};
  while (first->next == UnitKind::kStep) {
    EXPECT_EQ(step({first.get(), second.get(), third.get()}), others_wait);
  }
  EXPECT_EQ(second->steps_done, 0);
  while (second->next == UnitKind::kStep) step({second.get()});
  ASSERT_OK(stream->Synchronize());
  const auto latents_of = [&](const Picture& picture) {
    return ValuesOf(testing::CopyToHost(device, picture.latents).value());
  };
  EXPECT_EQ(latents_of(*second), latents_of(*first));
  EXPECT_EQ(latents_of(*first), latents_of(*rig.Finish(guided)));
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
  const auto stream = device.NewStream(SystemClock()).value();
  Lanes lanes;
  std::vector<PendingUnit> units;
  int draws = 0;
  while (picture->next == UnitKind::kStep) {
    draws += picture->stage().schedule().steps[picture->evaluation].draws_noise;
    ASSERT_OK_AND_ASSIGN(PendingUnit unit, EnqueueUnit({picture.get()}, lanes, *stream));
    units.push_back(std::move(unit));
  }
  EXPECT_GT(draws, 2);
  for (PendingUnit& unit : units) ASSERT_OK(CompleteUnit(unit, *picture, unit.parts[0]));
  const auto drawn = rig.Finish(spec);
  ASSERT_OK_AND_ASSIGN(const device::Buffer actual, testing::CopyToHost(device, picture->latents));
  ASSERT_OK_AND_ASSIGN(const device::Buffer expected, testing::CopyToHost(device, drawn->latents));
  EXPECT_EQ(ValuesOf(actual), ValuesOf(expected));
}

// A batch-invariant picture has its own lane where the number of rows changes results.
TEST(BatchInvariantTest, APictureIsAloneWhereTheBackendPromisesNothing) {
  for (const bool promised : {false, true}) {
    std::unique_ptr<backends::Backend> backend;
    if (promised) backend = backends::cpu::CpuBackend::Create().value();
    if (!promised) backend = std::make_unique<backends::reference::ReferenceBackend>();
    const Rig rig({.base = testing::kDemoBase, .row_counts = {1, 2}}, "", std::move(backend));
    PictureSpec spec = WithGuidance(SmallSpec(), 1);
    spec.num_images_per_prompt = 2;
    const GraphHandle two =
        rig.pipeline->first().graphs().Find({.shape = {2, 72 / 8, 64 / 8}}).value();
    ASSERT_OK(rig.pipeline->first().graphs().Get(two));
    ASSERT_OK_AND_ASSIGN(const auto any, rig.Begin(spec));
    EXPECT_EQ(any[0]->lane(), any[1]->lane());
    EXPECT_EQ(any[0]->most_rows(), 2);
    spec.batch_invariant = true;
    ASSERT_OK_AND_ASSIGN(const auto pictures, rig.Begin(spec));
    EXPECT_EQ(pictures[0]->lane() == pictures[1]->lane(), promised);
    EXPECT_EQ(pictures[0]->lane() == any[0]->lane(), promised);
    EXPECT_EQ(pictures[0]->most_rows(), promised ? 2 : 1);
  }
}

TEST_F(StepLaneTest, HoldsAsManyBytesAsItSays) {
  const auto ports = rig_->pipeline->first().graphs().StepPorts(/*elements=*/4 * 9 * 8);
  EXPECT_EQ(Lane({1, 2})->bytes(), StepLane::Bytes(ports, 2));
  EXPECT_EQ(Lane({1, 4})->bytes(), StepLane::Bytes(ports, 4));
}

TEST_F(StepLaneTest, KnowsPortsBeforeAStepIsCompiled) {
  ModelGraphs& graphs = rig_->pipeline->first().graphs();
  for (const StepShape& shape : {StepShape{1, 8, 8}, StepShape{2, 9, 8}, StepShape{4, 8, 17}}) {
    rig_->kept.push_back(graphs.Find({.shape = shape}).value());
    EXPECT_THAT(StepPortsOf(graphs.Get(rig_->kept.back()).value()->info()),
                ::testing::UnorderedElementsAreArray(
                    graphs.StepPorts(int64_t{4} * shape.height * shape.width)));
  }
}

TEST_F(StepLaneTest, AnImageWithoutAPortsValueDoesNotJoin) {
  const auto picture = Begin(Spec("a red circle", 2, 3));
  const auto lane = Lane({2});
  for (const RowValue& value : RowsOf(*picture).values) {
    LaneRows rows = RowsOf(*picture);
    std::erase_if(rows.values, [&](const RowValue& other) { return other.name == value.name; });
    EXPECT_THAT(lane->Join(rows, *stream_).status(),
                StatusIs(absl::StatusCode::kInternal, ::testing::HasSubstr(value.name)));
  }
  EXPECT_EQ(lane->rows_taken(), 0);
  Join(*lane, *picture);
}

}  // namespace
}  // namespace latentd::pipeline
