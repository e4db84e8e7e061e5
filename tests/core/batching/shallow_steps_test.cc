// Evaluations that compute a part of the network, and those that compute all of it, of pictures in
// one lane.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <vector>

#include "core/batching/lane_work.h"
#include "core/batching/queue.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::batching {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr Lane kDeepLane{.width = 64, .height = 64};
constexpr absl::Duration kFull = absl::Seconds(3), kShallow = absl::Seconds(1);

// A picture that computes all every so many evaluations, from the first of those that are left on.
struct Caching {
  int interval = 1, left = 12;
  bool shallow() const { return done % interval != 0; }
  int done = 0;
};

class ShallowStepsTest : public ::testing::Test {
 protected:
  static Need NeedOf(const Caching& picture) {
    StepRun run{.count = picture.left - picture.done, .rows = 1};
    for (int i = picture.done; i < picture.left; ++i) {
      run.shallow += i % picture.interval != 0 ? 1 : 0;
    }
    Need need{.kind = UnitKind::kStep,
              .lane = kDeepLane,
              .lane_rows = 4,
              .joined = true,
              .shallow = picture.shallow(),
              .ahead = {.stages = {{{kDeepLane, 0, {run}}}}, .after = {UnitKind::kDecode}}};
    if (run.count == 0) need.kind = UnitKind::kDone;
    return need;
  }

  PictureId Begin(const Caching& picture) {
    const PictureId id = next_++;
    pictures_[id] = picture;
    EXPECT_OK(queue_.Admit({.pictures = {id}, .need = NeedOf(picture)}));
    return id;
  }

  // The next evaluation, which all of its pictures take.
  Unit Step() {
    const Unit unit = queue_.Next().value();
    EXPECT_EQ(unit.kind, UnitKind::kStep);
    const absl::Duration took = unit.shallow ? kShallow : kFull;
    clock_.Advance(took);
    for (PictureId id : unit.pictures) {
      EXPECT_EQ(pictures_[id].shallow(), unit.shallow) << "another kind than the picture's";
      ++pictures_[id].done;
      queue_.Update(id, NeedOf(pictures_[id]));
      if (pictures_[id].done == pictures_[id].left) queue_.Remove(id);
    }
    queue_.Measure(unit, static_cast<int>(unit.pictures.size()), took);
    return unit;
  }

  latentd::testing::FakeClock clock_;
  Queue queue_{{}, clock_};
  std::map<PictureId, Caching> pictures_;
  PictureId next_ = 1;
};

TEST_F(ShallowStepsTest, AnEvaluationIsOfOneKind) {
  Begin({.interval = 3});
  Begin({.interval = 1});
  Begin({.interval = 2});
  while (queue_.size() > 0) Step();
}

// They take all full evaluations together then, whatever their phases were.
TEST_F(ShallowStepsTest, PicturesFallIntoStep) {
  Begin({.interval = 3});
  Step();
  Step();
  Begin({.interval = 3, .left = 10});
  EXPECT_THAT(Step().pictures, ElementsAre(1));  // its shallow one
  std::vector<int> counts;
  for (int i = 0; i < 9; ++i) counts.push_back(static_cast<int>(Step().pictures.size()));
  EXPECT_THAT(counts, Each(2));
}

// None waits longer than the others take to their next full one.
TEST_F(ShallowStepsTest, AFullEvaluationComesSoonForAll) {
  for (int interval : {10, 7, 3}) Begin({.interval = interval, .left = 60});
  Step();
  Begin({.interval = 1, .left = 8});
  int waited = 0;
  while (pictures_[4].done < 8) {
    const int before = pictures_[4].done;
    Step();
    waited = pictures_[4].done > before ? 0 : waited + 1;
    ASSERT_LT(waited, 10);
  }
}

// One that is in the lane, where four rows are evaluated at once.
Entry StepperOf(PictureId picture, bool shallow, int rows = 1) {
  return {.picture = picture,
          .need = {.kind = UnitKind::kStep,
                   .lane = kDeepLane,
                   .lane_rows = 4,
                   .lane_places = 8,
                   .joined = true,
                   .shallow = shallow,
                   .ahead = {.stages = {{{kDeepLane, 0, {{.count = 5, .rows = rows}}}}}}},
          .started = true};
}

std::vector<PictureId> WhoSteps(const std::vector<Entry>& entries, Sharing sharing,
                                const Costs& costs = {}, const Entry* passes = nullptr) {
  LaneWork work(kDeepLane, sharing);
  size_t place = 0;
  for (const Entry& each : entries) work.KeepRows(each);
  if (passes != nullptr) work.LetPass(*passes);
  for (const Entry& each : entries) work.Add(each, place++);
  if (sharing == Sharing::kByDeadline) work.KeepWhoPays(costs);
  std::vector<PictureId> pictures;
  for (const Entry* each : work.WhoSteps()) pictures.push_back(each->picture);
  return pictures;
}

// In turns shallow ones go first, in whatever order their pictures are.
TEST(ShallowLaneWorkTest, TheFirstThatIsDueSaysWhichKindIsNext) {
  const std::vector<Entry> entries = {StepperOf(1, /*shallow=*/false), StepperOf(2, true),
                                      StepperOf(3, false)};
  EXPECT_THAT(WhoSteps(entries, Sharing::kByDeadline), ElementsAre(1, 3));
  EXPECT_THAT(WhoSteps(entries, Sharing::kInTurns), ElementsAre(2));
}

TEST(ShallowLaneWorkTest, OfTheOtherKindNoneTakesRowsOfTheFirstOnes) {
  const auto entries = [](bool first_is_shallow) {
    return std::vector<Entry>{StepperOf(1, first_is_shallow, /*rows=*/2),
                              StepperOf(2, !first_is_shallow, 2),
                              StepperOf(3, first_is_shallow, 2)};
  };
  EXPECT_THAT(WhoSteps(entries(false), Sharing::kByDeadline), ElementsAre(1, 3));
  EXPECT_THAT(WhoSteps(entries(true), Sharing::kByDeadline), ElementsAre(1, 3));
}

// Here those of shallow evaluations alone grow with their rows.
TEST(ShallowLaneWorkTest, RowsPayByTheCostsOfTheFirstOnesKind) {
  Costs costs;
  for (int rows : {2, 4}) {
    costs.Measure(UnitKind::kStep, kDeepLane, rows, kFull);
    costs.Measure(UnitKind::kStep, ShallowOf(kDeepLane), rows, rows * kShallow);
  }
  const auto entries = [](bool shallow) {
    return std::vector<Entry>{StepperOf(1, shallow, /*rows=*/2), StepperOf(2, shallow, 2)};
  };
  EXPECT_THAT(WhoSteps(entries(false), Sharing::kByDeadline, costs), ElementsAre(1, 2));
  EXPECT_THAT(WhoSteps(entries(true), Sharing::kByDeadline, costs), ElementsAre(1));
}

// It passes them between their evaluations.
TEST(ShallowLaneWorkTest, APassingPictureTakesNoTurnOfTheOthersForItself) {
  const std::vector<Entry> one = {StepperOf(1, /*shallow=*/false), StepperOf(2, true),
                                  StepperOf(3, false)};
  EXPECT_THAT(WhoSteps(one, Sharing::kInTurns, {}, &one[1]), ElementsAre(1, 3));
  const std::vector<Entry> two = {StepperOf(1, false), StepperOf(2, true), StepperOf(3, true)};
  EXPECT_THAT(WhoSteps(two, Sharing::kInTurns, {}, &two[1]), ElementsAre(2, 3));
  const std::vector<Entry> alone = {StepperOf(1, true)};
  EXPECT_THAT(WhoSteps(alone, Sharing::kInTurns, {}, &alone[0]), ElementsAre(1));
}

TEST(ShallowCostsTest, BothKindsAreLearnedApart) {
  Costs costs;
  const Ahead ahead{.stages = {{{kDeepLane, 0, {{.count = 10, .rows = 2, .shallow = 6}}}}}};
  costs.Measure(UnitKind::kStep, kDeepLane, 2, kFull);
  // Nothing is known of a part of the network but that it takes no longer.
  EXPECT_EQ(costs.Of(UnitKind::kStep, ShallowOf(kDeepLane), 2), kFull);
  EXPECT_EQ(costs.Alone(ahead), 10 * kFull);
  for (int i = 0; i < 4; ++i) costs.Measure(UnitKind::kStep, kDeepLane, 2, kFull);
  EXPECT_FALSE(costs.HasMeasured(ahead));
  for (int i = 0; i < 4; ++i) costs.Measure(UnitKind::kStep, ShallowOf(kDeepLane), 2, kShallow);
  EXPECT_TRUE(costs.HasMeasured(ahead));
  EXPECT_EQ(costs.Of(UnitKind::kStep, ShallowOf(kDeepLane), 2), kShallow);
  EXPECT_EQ(costs.Of(UnitKind::kStep, kDeepLane, 2), kFull);
  EXPECT_EQ(costs.Alone(ahead), 4 * kFull + 6 * kShallow);
  EXPECT_EQ(costs.OfStep(kDeepLane, 2, 0.5), (kFull + kShallow) / 2);
}

// The second takes a full one with each that the first takes, and no more shallow ones between two
// than it wants: F s s F s s beside F s - F s -.
TEST(ShallowForecastTest, ByDeadlineOthersRestInEvaluationsOfAnotherKind) {
  Costs costs;
  costs.Measure(UnitKind::kStep, kDeepLane, 2, kFull);
  costs.Measure(UnitKind::kStep, ShallowOf(kDeepLane), 2, kShallow);
  const auto ends = [&](int first_shallow, int second_shallow) {
    std::vector<ForecastPicture> pictures;
    for (int shallow : {first_shallow, second_shallow}) {
      const StepRun run{.count = 12, .rows = 1, .shallow = shallow};
      pictures.push_back({.ahead = {.stages = {{{kDeepLane, 0, {run}}}}}, .lane_rows = 2});
    }
    std::vector<double> ends;
    for (const Outlook& outlook : Foresee(pictures, Sharing::kByDeadline, costs)) {
      ends.push_back(absl::ToDoubleSeconds(outlook.ends));
    }
    return ends;
  };
  constexpr double kNear = 1e-3;
  const auto are = [](double first, double second) {
    return ElementsAre(DoubleNear(first, kNear), DoubleNear(second, kNear));
  };
  EXPECT_THAT(ends(8, 6), are(4 * 3 + 8, 4 * 3 + 8 + 2 * 3 + 2));
  EXPECT_THAT(ends(6, 8), are(6 * 3 + 6, 6 * 3 + 6 + 3 + 2));
  EXPECT_THAT(ends(6, 6), are(6 * 3 + 6, 6 * 3 + 6));
  EXPECT_THAT(ends(0, 6), are(12 * 3, 12 * 3 + 6 * 3 + 6));
}

TEST_F(ShallowStepsTest, ForecastsCountWhatEachKindTakes) {
  for (int i = 0; i < 2; ++i) {
    Begin({.interval = 2, .left = 12});
    while (queue_.size() > 0) Step();
  }
  const PictureId third = next_;
  ASSERT_OK_AND_ASSIGN(
      const Prospect prospect,
      queue_.Admit({.pictures = {third}, .need = NeedOf({.interval = 2, .left = 12})}));
  const double seconds = absl::ToDoubleSeconds(prospect.outlook.ends);
  EXPECT_NEAR(seconds, absl::ToDoubleSeconds(6 * kFull + 6 * kShallow), 1e-6);
}

}  // namespace
}  // namespace latentd::batching
