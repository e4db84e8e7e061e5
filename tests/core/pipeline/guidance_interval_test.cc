// Pictures of which some steps are guided, and what each step takes.
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "tests/core/pipeline/four_rows_rig.h"

namespace latentd::pipeline {
namespace {

using ::testing::ElementsAre;

PictureSpec WithInterval(PictureSpec spec, double start, double stop) {
  spec.guidance_interval = GuidanceInterval{start, stop};
  return spec;
}

class GuidanceIntervalTest : public FourRowsTest {
 protected:
  static PictureSpec Spec(const std::string& scheduler = "euler") {
    PictureSpec spec = SmallSpec();
    spec.scheduler.name = scheduler;
    spec.guidance_rescale = 0.5;
    return spec;
  }

  // One step of those that can take it; how many rows it computes.
  int Step(const std::vector<Picture*>& pictures) {
    PendingUnit unit = EnqueueUnit(pictures, lanes_, *stream_).value();
    for (size_t i = 0; i < pictures.size(); ++i) {
      EXPECT_OK(CompleteUnit(unit, *pictures[i], unit.parts[i]));
    }
    return unit.computed_rows;
  }

  std::vector<int> RowsOfSteps(const PictureSpec& spec) {
    const auto picture = Begin(spec);
    std::vector<int> rows;
    while (picture->next == UnitKind::kStep) rows.push_back(Step({picture.get()}));
    return rows;
  }

  // Some evaluations of Euler's schedule, which remembers nothing, by a picture that knows no
  // interval: from these latents to others.
  device::Buffer RunEvaluations(const PictureSpec& spec, const device::Buffer& latents,
                                size_t begin, size_t end) {
    const auto picture = Begin(spec);
    schedulers::Schedule part;
    const auto steps = absl::MakeConstSpan(picture->stage().schedule().steps);
    const auto run = steps.subspan(begin, end - begin);
    part.steps.assign(run.begin(), run.end());
    const bool guided = picture->rows() > 1;
    const double scale = guided ? *picture->request->spec().guidance_scale : 1;
    const double rescale = guided ? *picture->request->spec().guidance_rescale : 0;
    const auto lane = StepLane::Create(*picture->stage().steps.at(2), 2).value();
    lane->Add(picture->stage().steps);
    const LanePlace place =
        lane->Join({.rows = picture->rows(),
                    .latents = latents,
                    .schedule = &part,
                    .values = StepValues(*picture->request->conditioning[0], scale, rescale)},
                   *stream_)
            .value()
            .value();
    for (size_t i = begin; i < end; ++i) EXPECT_OK(lane->Step(*stream_, {}).value().status);
    const device::Buffer read = device::Buffer::Allocate(device::DType::kF32, latents.shape());
    const device::Buffer finite = device::Buffer::Allocate(device::DType::kU8, {1});
    EXPECT_OK(lane->Read(place, read, finite, *stream_));
    EXPECT_OK(stream_->Synchronize());
    return read;
  }

  int room_ = batching::kMostRows;  // most rows of a lane
  Lanes lanes_{[this](const LaneMemory& lane) {
    return lane.label.rows <= room_ ? absl::OkStatus() : absl::ResourceExhaustedError("no room");
  }};
};

TEST_F(GuidanceIntervalTest, AllStepsAreTheDefaultByteForByte) {
  EXPECT_EQ(rig_->Latents(WithInterval(Spec(), 0, 1)), rig_->Latents(Spec()));
}

TEST_F(GuidanceIntervalTest, AStepHasTheRowsThatItNeeds) {
  EXPECT_EQ(RowsOfSteps(Spec()), (std::vector<int>{2, 2, 2, 2}));
  EXPECT_EQ(RowsOfSteps(WithInterval(Spec(), 0.25, 0.75)), (std::vector<int>{1, 2, 2, 1}));
  EXPECT_EQ(RowsOfSteps(WithInterval(Spec(), 0.5, 1)), (std::vector<int>{1, 1, 2, 2}));
  EXPECT_EQ(RowsOfSteps(WithInterval(Spec(), 0, 0.74)), (std::vector<int>{2, 2, 1, 1}));
  // None is guided, as in diffusers: int(4 * 0.2) is 0.
  EXPECT_EQ(RowsOfSteps(WithInterval(Spec(), 0, 0.2)), (std::vector<int>{1, 1, 1, 1}));
}

// The two evaluations of a step are guided alike, or not.
TEST_F(GuidanceIntervalTest, CountsStepsAsUsersDo) {
  EXPECT_EQ(RowsOfSteps(WithInterval(Spec("heun"), 0.5, 1)),
            (std::vector<int>{1, 1, 1, 1, 2, 2, 2}));
}

TEST_F(GuidanceIntervalTest, EachStepIsThatOfAPictureWithOrWithoutGuidance) {
  PictureSpec unguided = Spec();
  unguided.guidance_scale = 1;
  const device::Buffer start = Begin(Spec())->latents;
  device::Buffer latents = RunEvaluations(unguided, start, 0, 1);
  latents = RunEvaluations(Spec(), latents, 1, 3);
  latents = RunEvaluations(unguided, latents, 3, 4);
  EXPECT_EQ(rig_->Latents(WithInterval(Spec(), 0.25, 0.75)), ValuesOf(latents));
  EXPECT_NE(ValuesOf(latents), rig_->Latents(Spec()));
}

// With what the noise scheduler remembers, and its noise, in rows that come, go and move.
TEST_F(GuidanceIntervalTest, PicturesSideBySideAreWhatTheyAreAlone) {
  for (const char* scheduler : {"dpmpp_2m", "euler_ancestral"}) {
    const PictureSpec early = WithInterval(Spec(scheduler), 0, 0.5);
    const PictureSpec late = WithInterval(Spec(scheduler), 0.5, 1);
    const auto first = Begin(early), second = Begin(late);
    std::vector<int> rows;
    while (first->next == UnitKind::kStep) rows.push_back(Step({first.get(), second.get()}));
    EXPECT_EQ(rows, (std::vector<int>{4, 4, 4, 4}));  // 3 are taken throughout
    EXPECT_EQ(ValuesOf(first->latents), rig_->Latents(early));
    EXPECT_EQ(ValuesOf(second->latents), rig_->Latents(late));
  }
}

TEST_F(GuidanceIntervalTest, RowsAreKeptForWhoTakesThemLater) {
  room_ = 4;
  const auto late = Begin(WithInterval(Spec(), 0.5, 1)),
             early = Begin(WithInterval(Spec(), 0, 0.5));
  PictureSpec narrow = Spec();
  narrow.guidance_scale = 1;
  const auto next = Begin(narrow);
  const std::vector<Picture*> all = {late.get(), early.get(), next.get()};
  Step(all);
  EXPECT_EQ(next->steps_done, 0);  // a row is free, and not to be had
  Step(all);
  EXPECT_EQ(next->steps_done, 0);
  Step(all);
  EXPECT_EQ(next->steps_done, 1);  // one of the first two takes no more than one from now on
  EXPECT_EQ(late->steps_done, 3);
}

TEST(GuidanceIntervalGraphsTest, AreThoseOfBothRowCountsWhereBothAreNeeded) {
  const Rig rig({.base = testing::kDemoBase});
  EXPECT_EQ(rig.Start(SmallSpec())->stage().steps.size(), 1u);
  EXPECT_EQ(rig.Start(WithInterval(SmallSpec(), 0, 1))->stage().steps.size(), 1u);
  EXPECT_EQ(rig.Start(WithInterval(SmallSpec(), 0, 0.5))->stage().steps.size(), 2u);
  PictureSpec unguided = WithInterval(SmallSpec(), 0, 0.5);
  unguided.guidance_scale = 1;
  EXPECT_EQ(rig.Start(unguided)->stage().steps.size(), 1u);
}

schedulers::Schedule StepsOf(int steps) {
  schedulers::Schedule schedule;
  for (int i = 0; i < steps; ++i) schedule.steps.emplace_back().denoising_index = i;
  return schedule;
}

// Rows of the evaluations of each stage.
std::vector<std::string> Rows(const GuidanceInterval& interval, const std::vector<int>& steps) {
  std::vector<PlannedStage> stages;
  int first_step = 0;
  for (int count : steps) {
    stages.push_back({.schedule = StepsOf(count), .prompts = {{}, {}}, .first_step = first_step});
    first_step += count;
  }
  PlanRows(interval, stages);
  std::vector<std::string> rows;
  for (const PlannedStage& stage : stages) rows.push_back(absl::StrJoin(stage.rows, ""));
  return rows;
}

TEST(PlanRowsTest, CountsTheStepsOfAllStagesTogether) {
  EXPECT_THAT(Rows({0, 1}, {8, 2}), ElementsAre("22222222", "22"));
  EXPECT_THAT(Rows({0.2, 0.9}, {8, 2}), ElementsAre("11222222", "21"));
  EXPECT_THAT(Rows({0.9, 1}, {8, 2}), ElementsAre("11111111", "12"));
  EXPECT_THAT(Rows({0, 0.5}, {8, 2}), ElementsAre("22222111", "11"));
  // As Python's int(0.29 * 100).
  EXPECT_THAT(Rows({0, 0.29}, {100}), ElementsAre(std::string(28, '2') + std::string(72, '1')));
  EXPECT_THAT(Rows({0.5, 1}, {0, 4}), ElementsAre("", "1122"));
}

}  // namespace
}  // namespace latentd::pipeline
