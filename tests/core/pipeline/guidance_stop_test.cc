// Pictures whose guidance ends by itself: when, and that what runs beside them has no part in it.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "core/pipeline/picture/guidance_watch.h"
#include "tests/core/pipeline/four_rows_rig.h"

namespace latentd::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;

// Independent of the graph and of GuidanceWatch: the rule as docs/models.md has it.
constexpr double kLittle = 0.2;

// Deviation of the difference, as torch.std.
double Deviation(const std::vector<float>& one, const std::vector<float>& other) {
  const auto count = static_cast<double>(one.size());
  double sum = 0, squares = 0;
  for (size_t i = 0; i < one.size(); ++i) sum += double{one[i]} - other[i];
  for (size_t i = 0; i < one.size(); ++i) {
    const double apart = double{one[i]} - other[i] - sum / count;
    squares += apart * apart;
  }
  return std::sqrt(squares / (count - 1));
}

// The levels of noise of Euler's schedule, by how it scales the network's input; the last is none.
std::vector<double> SigmasOf(const Picture& picture) {
  std::vector<double> sigmas;
  for (const schedulers::StepCoefficients& step : picture.stage().schedule().steps) {
    const double scale = step.input_scale;
    sigmas.push_back(std::sqrt(1 / (scale * scale) - 1));
  }
  sigmas.push_back(0);
  return sigmas;
}

// The first evaluation that is not guided, by what guidance changed in those before; the greatest
// number: they say none yet.
size_t StopOf(const std::vector<double>& changes) {
  for (size_t i = 1; i < changes.size(); ++i) {
    if (changes[i - 1] <= kLittle && changes[i] <= kLittle) return i + 2;
  }
  return std::numeric_limits<size_t>::max();
}

class GuidanceStopTest : public FourRowsTest {
 protected:
  static PictureSpec Spec(const std::string& scheduler = "euler") {
    PictureSpec spec = SmallSpec();
    spec.num_inference_steps = 8;
    spec.scheduler.name = scheduler;
    spec.guidance_scale = 4;
    spec.guidance_stop = GuidanceStop::kAuto;
    return spec;
  }
  static PictureSpec Never(PictureSpec spec) {
    spec.guidance_stop = GuidanceStop::kNever;
    return spec;
  }

  void Complete(PendingUnit& unit, const std::vector<Picture*>& pictures) {
    for (size_t i = 0; i < pictures.size(); ++i) {
      EXPECT_OK(CompleteUnit(unit, *pictures[i], unit.parts[i]));
    }
  }

  // Steps the pictures together until the first is through; the rows of its evaluations.
  std::vector<int> StepTogether(const std::vector<Picture*>& pictures) {
    std::vector<int> rows;
    while (pictures.front()->next == UnitKind::kStep) {
      rows.push_back(pictures.front()->next_rows());
      PendingUnit unit = EnqueueUnit(pictures, lanes_, *stream_).value();
      Complete(unit, pictures);
    }
    return rows;
  }

  // One evaluation of Euler's schedule, which remembers nothing, of so many rows with that
  // guidance: from these latents to others.
  std::vector<float> Evaluate(const Picture& picture, const device::Buffer& latents, size_t line,
                              int rows, double scale, float* contrast = nullptr) {
    schedulers::Schedule one;
    one.steps = {picture.stage().schedule().steps[line]};
    const auto lane = StepLane::Create(*picture.stage().steps.at(rows), rows).value();
    lane->Add(picture.stage().steps);
    const LanePlace place =
        lane->Join({.rows = rows,
                    .latents = latents,
                    .schedule = &one,
                    .values = StepValues(*picture.request->conditioning[0], scale, 0)},
                   *stream_)
            .value()
            .value();
    EXPECT_OK(lane->Step(*stream_, {}).value().status);
    const device::Buffer read = device::Buffer::Allocate(device::DType::kF32, latents.shape());
    const device::Buffer number = device::Buffer::Allocate(device::DType::kF32, {1});
    EXPECT_OK(lane->ReadState(place, /*index=*/0, read, *stream_));
    EXPECT_OK(lane->ReadContrast(place, number, *stream_));
    EXPECT_OK(stream_->Synchronize());
    if (contrast != nullptr) *contrast = number.as<float>().front();
    return ValuesOf(read);
  }

  static device::Buffer BufferOf(const std::vector<float>& values, const device::Shape& shape) {
    const device::Buffer buffer = device::Buffer::Allocate(device::DType::kF32, shape);
    std::copy(values.begin(), values.end(), buffer.as<float>().begin());
    return buffer;
  }

  Lanes lanes_;
};

// Euler's step is linear in what the network says: with a scale of 1 it follows the output for the
// prompt, with 0 that for the negative prompt. From noise of `sigma` to that of `next`, both are
// apart by (sigma - next) times what the outputs are, and the images predicted there by sigma
// times.
TEST_F(GuidanceStopTest, EndsWhereALoopByTheRuleEndsIt) {
  bool some_stop_midway = false;
  for (double scale : {1.5, 2.0, 3.0}) {
    PictureSpec spec = Spec();
    spec.guidance_scale = scale;
    const auto picture = Begin(spec);
    const std::vector<double> sigmas = SigmasOf(*picture);
    const device::Shape shape = picture->latents.shape();
    std::vector<float> x = ValuesOf(picture->latents);
    std::vector<double> changes;
    std::vector<int> rows;
    for (size_t line = 0; line + 1 < sigmas.size(); ++line) {
      const device::Buffer latents = BufferOf(x, shape);
      float contrast = -1;
      const std::vector<float> by_prompt = Evaluate(*picture, latents, line, 2, 1, &contrast);
      const std::vector<float> by_negative = Evaluate(*picture, latents, line, 2, 0);
      const double apart = Deviation(by_prompt, by_negative) / (sigmas[line] - sigmas[line + 1]);
      EXPECT_NEAR(contrast, apart, 2e-3 * apart) << line;
      const double change = (scale - 1) * apart * sigmas[line];
      EXPECT_GT(std::abs(change - kLittle), 2e-3) << "too near to tell";
      const bool guided = line < StopOf(changes);
      if (guided) changes.push_back(change);
      rows.push_back(guided ? 2 : 1);
      x = guided ? Evaluate(*picture, latents, line, 2, scale)
                 : Evaluate(*picture, latents, line, 1, 1);
    }
    EXPECT_EQ(StepTogether({picture.get()}), rows);
    some_stop_midway = some_stop_midway || (rows[4] == 2 && rows[rows.size() - 2] == 1);
    EXPECT_EQ(ValuesOf(picture->latents), x);
  }
  EXPECT_TRUE(some_stop_midway);
}

TEST_F(GuidanceStopTest, RowsWithoutGuidanceHaveNoContrast) {
  PictureSpec unguided = Never(Spec());
  unguided.guidance_scale = 1;
  const auto picture = Begin(unguided), wide = Begin(Spec());
  ASSERT_NE(picture->lane(), Lane());
  EXPECT_EQ(picture->lane(), wide->lane());
  PendingUnit unit = EnqueueUnit({picture.get(), wide.get()}, lanes_, *stream_).value();
  EXPECT_FALSE(unit.parts[0].contrast.has_memory());  // it does not ask
  ASSERT_TRUE(unit.parts[1].contrast.has_memory());
  const device::Buffer contrast = device::Buffer::Allocate(device::DType::kF32, {1});
  ASSERT_OK(picture->place->lane()->ReadContrast(*picture->place, contrast, *stream_));
  Complete(unit, {picture.get(), wide.get()});
  EXPECT_EQ(contrast.as<float>().front(), 0);
  EXPECT_GT(unit.parts[1].contrast.as<float>().front(), 0);
}

TEST_F(GuidanceStopTest, APictureThatNeverStopsIsTheOneWithFullGuidance) {
  PictureSpec spec = Spec();
  spec.guidance_scale = 30;
  const auto picture = Begin(spec);
  EXPECT_THAT(StepTogether({picture.get()}), Each(2));
  EXPECT_EQ(picture->guidance_stopped_after(), 0);
  EXPECT_EQ(ValuesOf(picture->latents), rig_->Latents(Never(spec)));
}

// With what the noise scheduler remembers, and its noise, in rows that come, go and move.
TEST_F(GuidanceStopTest, PicturesSideBySideAreWhatTheyAreAlone) {
  for (const char* scheduler : {"dpmpp_2m", "euler_ancestral", "heun"}) {
    PictureSpec early = Spec(scheduler), whole = Never(Spec(scheduler));
    early.guidance_scale = 1.1;
    whole.num_inference_steps = 9;
    const auto first = Begin(early), second = Begin(whole);
    EXPECT_THAT(StepTogether({first.get(), second.get()}), AllOf(Contains(1), Contains(2)));
    EXPECT_GT(first->guidance_stopped_after(), 0) << scheduler;
    EXPECT_EQ(ValuesOf(first->latents), rig_->Latents(early)) << scheduler;
    EXPECT_NE(ValuesOf(first->latents), rig_->Latents(Never(early))) << scheduler;
    EXPECT_THAT(StepTogether({second.get()}), Each(2));
    EXPECT_EQ(ValuesOf(second->latents), rig_->Latents(whole)) << scheduler;
  }
}

// As the engine does it where the device is behind, and where it is not.
TEST_F(GuidanceStopTest, AStepThatIsEnqueuedBeforeTheLastIsCompletedMakesNoDifference) {
  PictureSpec spec = Spec();
  spec.guidance_scale = 1.1;
  const auto in_turn = Begin(spec), ahead = Begin(spec);
  const std::vector<int> rows = StepTogether({in_turn.get()});
  std::vector<int> found;
  std::vector<PendingUnit> units;
  while (ahead->next == UnitKind::kStep || !units.empty()) {
    if (ahead->next == UnitKind::kStep) {
      found.push_back(ahead->next_rows());
      units.push_back(EnqueueUnit({ahead.get()}, lanes_, *stream_).value());
      if (units.size() < 2) continue;
    }
    Complete(units.front(), {ahead.get()});
    units.erase(units.begin());
  }
  EXPECT_EQ(found, rows);
  EXPECT_EQ(ahead->guidance_stopped_after(), in_turn->guidance_stopped_after());
  EXPECT_EQ(ValuesOf(ahead->latents), ValuesOf(in_turn->latents));
}

// The refiner takes up where the base ends: guidance does not begin again.
TEST(GuidanceStopStagesTest, GoesOnInTheNextStage) {
  const Rig rig;
  PictureSpec spec = SmallSpec();
  spec.num_inference_steps = 8;
  spec.guidance_scale = 2;
  spec.guidance_stop = GuidanceStop::kAuto;
  spec.refine = true;
  spec.denoising_end = 0.5;
  const auto picture = rig.Start(spec);
  const size_t steps = picture->plan().stages[0].rows.size();
  EXPECT_EQ(picture->ahead().stages[1].runs.front().rows, 2);  // as far as is known
  ASSERT_FALSE(picture->guidance.Note(steps - 2, 0));
  ASSERT_TRUE(picture->guidance.Note(steps - 1, 0));
  EXPECT_EQ(picture->ahead().stages[1].runs.size(), 2u);  // one is guided, then none
  EXPECT_EQ(picture->ahead().stages[0].runs.size(), 1u);
  EXPECT_EQ(picture->guidance_stopped_after(), static_cast<int>(steps) + 1);
}

TEST(GuidanceWatchTest, TwoEvaluationsDecideAboutTheSecondBehindThem) {
  GuidanceWatch watch;
  EXPECT_FALSE(watch.Note(4, 0.04));
  EXPECT_FALSE(watch.Note(5, 0.6));  // not little
  EXPECT_FALSE(watch.Note(6, 0.04));
  EXPECT_FALSE(watch.is_decided());
  EXPECT_TRUE(watch.Note(7, 0.04));
  EXPECT_FALSE(watch.HasStopped(8));
  EXPECT_TRUE(watch.HasStopped(9));
  EXPECT_TRUE(watch.HasStopped(20));
  EXPECT_FALSE(watch.Note(8, 0.04));  // it was enqueued already
  EXPECT_FALSE(watch.HasStopped(8));
  EXPECT_TRUE(watch.HasStopped(9));
}

TEST(GuidanceWatchTest, WhatIsNoNumberIsNotLittle) {
  for (const double change :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    GuidanceWatch watch;
    for (size_t i = 0; i < 4; ++i) EXPECT_FALSE(watch.Note(i, change));
    EXPECT_FALSE(watch.HasStopped(100));
  }
}

}  // namespace
}  // namespace latentd::pipeline
