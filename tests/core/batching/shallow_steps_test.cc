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

// In turns shallow ones go first, in whatever order their pictures are.
TEST(ShallowLaneWorkTest, TheFirstThatIsDueSaysWhichKindIsNext) {
  const auto entry = [](PictureId picture, bool shallow) {
    return Entry{.picture = picture,
                 .need = {.kind = UnitKind::kStep,
                          .lane = kDeepLane,
                          .lane_rows = 4,
                          .joined = true,
                          .shallow = shallow},
                 .started = true};
  };
  const Entry first = entry(1, /*shallow=*/false), second = entry(2, /*shallow=*/true),
              third = entry(3, /*shallow=*/false);
  const auto who_steps = [&](Sharing sharing) {
    LaneWork work(kDeepLane, sharing);
    size_t place = 0;
    for (const Entry* each : {&first, &second, &third}) work.KeepRows(*each);
    for (const Entry* each : {&first, &second, &third}) work.Add(*each, place++);
    std::vector<PictureId> pictures;
    for (const Entry* each : work.WhoSteps()) pictures.push_back(each->picture);
    return pictures;
  };
  EXPECT_THAT(who_steps(Sharing::kByDeadline), ElementsAre(1, 3));
  EXPECT_THAT(who_steps(Sharing::kInTurns), ElementsAre(2));
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
