#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "core/batching/queue.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::batching {
namespace {

using ::latentd::testing::FakeClock;
using ::testing::ElementsAre;
using ::testing::Pair;

constexpr Lane kLane{.width = 64, .height = 64}, kOther{.width = 96, .height = 64};

Need Text(int rows, Lane lane = kLane) {
  return {.kind = UnitKind::kText,
          .lane = lane,
          .lane_rows = 4,
          .ahead = {.stages = {{{.runs = {{1, rows}}}}}}};
}

Need Step(const Need& text, bool joined) {
  Need step = text;
  step.kind = UnitKind::kStep;
  step.joined = joined;
  return step;
}

Need WithPreview(Need need) {
  need.preview = true;
  return need;
}

Need Decode(const Need& text) { return {.kind = UnitKind::kDecode, .lane = text.lane}; }

// Lanes of four rows.
class SharedStepsTest : public ::testing::Test {
 protected:
  void Admit(PictureId picture, const Need& text) {
    ASSERT_OK(queue_.Admit({.pictures = {picture}, .need = text}));
  }

  // Its prompts are encoded; its first step is next.
  void Begin(PictureId picture, const Need& text) {
    Admit(picture, text);
    for (int i = 0; i < 10 && queue_.Next()->pictures[0] != picture; ++i) continue;
    queue_.Update(picture, Step(text, /*joined=*/false));
  }

  // Kinds of the next units; afterwards all of their pictures are in their steps.
  std::vector<UnitKind> KindsOfNext(int count) {
    std::vector<UnitKind> kinds;
    for (int i = 0; i < count; ++i) {
      const Unit unit = *queue_.Next();
      kinds.push_back(unit.kind);
      for (PictureId picture : unit.pictures) queue_.Update(picture, Step(Text(1), true));
    }
    return kinds;
  }

  void Measure(UnitKind kind, int rows, absl::Duration took) {
    queue_.Measure({.kind = kind, .lane = kLane}, rows, took);
  }

  static constexpr UnitKind kText = UnitKind::kText, kStep = UnitKind::kStep;
  FakeClock clock_;
  Queue queue_{{.pictures = 100}, clock_};
};

TEST_F(SharedStepsTest, APictureJoinsAtTheNextStep) {
  Admit(1, Text(2));
  EXPECT_EQ(queue_.Next()->kind, UnitKind::kText);
  queue_.Update(1, Step(Text(2), false));
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(1));
  queue_.Update(1, Step(Text(2), true));
  Admit(2, Text(1));
  const Unit text = *queue_.Next();
  EXPECT_EQ(text.kind, UnitKind::kText);
  EXPECT_THAT(text.pictures, ElementsAre(2));
  queue_.Update(2, Step(Text(1), false));
  const Unit step = *queue_.Next();
  EXPECT_EQ(step.kind, UnitKind::kStep);
  EXPECT_THAT(step.pictures, ElementsAre(1, 2));
}

TEST_F(SharedStepsTest, NoMoreBeginThanThereAreRowsFor) {
  Admit(1, Text(2));
  Admit(2, Text(1));
  Admit(3, Text(2));
  Admit(4, Text(1));  // would fit, and does not overtake
  for (PictureId picture : {1, 2}) {
    EXPECT_THAT(queue_.Next()->pictures, ElementsAre(picture));
    queue_.Update(picture, Step(Text(picture == 1 ? 2 : 1), false));
    if (picture == 1) queue_.Next();  // its first step
    if (picture == 1) queue_.Update(1, Step(Text(2), true));
  }
  for (int i = 0; i < 3; ++i) {
    const Unit unit = *queue_.Next();
    EXPECT_EQ(unit.kind, UnitKind::kStep);
    EXPECT_THAT(unit.pictures, ElementsAre(1, 2));
  }
  queue_.Update(1, Decode(Text(2)));
  EXPECT_EQ(queue_.Next()->kind, UnitKind::kDecode);
  queue_.Remove(1);
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(3));
}

// A refiner's steps come after the base's: then more pictures may want rows than there are.
TEST_F(SharedStepsTest, OfThoseThatWaitForRowsTheFirstTakeThem) {
  for (PictureId picture : {1, 2, 3}) {
    Begin(picture, Text(2, {.network = 1, .width = 8 * static_cast<int>(picture)}));
  }
  for (PictureId picture : {1, 2, 3}) queue_.Update(picture, Step(Text(2), /*joined=*/false));
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(1, 2));
  queue_.Update(1, Step(Text(2), true));
  queue_.Update(3, Step(Text(2), true));  // a picture keeps its rows
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(1, 3));
}

TEST_F(SharedStepsTest, OneRequestBeginsBeforeAStep) {
  Begin(1, Text(1));
  for (PictureId picture = 2; picture <= 4; ++picture) Admit(picture, Text(1));
  EXPECT_THAT(KindsOfNext(6), ElementsAre(kStep, kText, kStep, kText, kStep, kText));
}

TEST_F(SharedStepsTest, MoreBeginWhereAllOfItTakesNoLongerThanAStep) {
  Begin(1, Text(1));
  Measure(UnitKind::kStep, 4, absl::Milliseconds(20));
  Measure(UnitKind::kText, 1, absl::Milliseconds(8));
  for (PictureId picture = 2; picture <= 4; ++picture) Admit(picture, Text(1));
  EXPECT_THAT(KindsOfNext(5), ElementsAre(kText, kText, kStep, kText, kStep));
}

TEST_F(SharedStepsTest, MoreAreDecodedWhereAllOfItTakesNoLongerThanAStep) {
  for (PictureId picture : {1, 2, 3, 4}) Begin(picture, Text(1));
  Measure(UnitKind::kStep, 1, absl::Milliseconds(20));
  Measure(UnitKind::kDecode, 1, absl::Milliseconds(8));
  queue_.Next();  // a step
  for (PictureId picture : {1, 2, 3}) queue_.Update(picture, Decode(Text(1)));
  queue_.Update(4, Step(Text(1), /*joined=*/true));
  std::vector<PictureId> ran;
  for (int i = 0; i < 4; ++i) {
    const Unit unit = *queue_.Next();
    ran.push_back(unit.pictures[0]);
    if (unit.kind == UnitKind::kDecode) queue_.Remove(unit.pictures[0]);
  }
  EXPECT_THAT(ran, ElementsAre(1, 2, 4, 3));
}

TEST_F(SharedStepsTest, ADecodeKeepsNobodyFromBeginning) {
  for (PictureId picture : {1, 2}) Begin(picture, Text(1));
  queue_.Next();  // a step
  queue_.Update(1, Decode(Text(1)));
  queue_.Update(2, Step(Text(1), /*joined=*/true));
  Admit(3, Text(1));
  EXPECT_EQ(queue_.Next()->pictures[0], 1u);
  queue_.Remove(1);
  EXPECT_EQ(queue_.Next()->pictures[0], 3u);
}

TEST_F(SharedStepsTest, OnePreviewComesBeforeAStepAndPicturesTakeTurns) {
  for (PictureId picture : {1, 2}) Begin(picture, Text(1));
  std::vector<std::pair<UnitKind, PictureId>> ran;
  for (int i = 0; i < 6; ++i) {
    const Unit unit = *queue_.Next();
    ran.push_back({unit.kind, unit.pictures[0]});
    for (PictureId picture : {1, 2}) {
      const bool shown = unit.kind == UnitKind::kPreview && unit.pictures[0] == picture;
      const Need step = Step(Text(1), /*joined=*/true);
      queue_.Update(picture, shown ? step : WithPreview(step));
    }
  }
  EXPECT_THAT(
      ran, ElementsAre(Pair(kStep, 1), Pair(UnitKind::kPreview, 1), Pair(kStep, 1),
                       Pair(UnitKind::kPreview, 2), Pair(kStep, 1), Pair(UnitKind::kPreview, 1)));
}

TEST_F(SharedStepsTest, MorePreviewsComeWhereAllOfItTakesNoLongerThanAStep) {
  for (PictureId picture : {1, 2, 3}) Begin(picture, Text(1));
  Measure(UnitKind::kStep, 4, absl::Milliseconds(20));
  Measure(UnitKind::kPreview, 1, absl::Milliseconds(8));
  queue_.Next();  // a step
  for (PictureId picture : {1, 2, 3}) queue_.Update(picture, WithPreview(Step(Text(1), true)));
  EXPECT_THAT(KindsOfNext(4), ElementsAre(UnitKind::kPreview, UnitKind::kPreview, kStep, kStep));
}

// Whose prompts are to be encoded for another network, say.
TEST_F(SharedStepsTest, APreviewNeedsNoStep) {
  Begin(1, Text(1));
  queue_.Next();
  queue_.Update(1, WithPreview(Text(1)));
  EXPECT_THAT(queue_.Next()->kind, kText);
  EXPECT_THAT(queue_.Next()->kind, kText);  // the next text goes first
  Need wait = WithPreview(Text(1));
  wait.kind = UnitKind::kWait;
  queue_.Update(1, wait);
  EXPECT_EQ(queue_.Next(), std::nullopt);
}

TEST_F(SharedStepsTest, PicturesOfOneRequestBeginTogether) {
  Begin(1, Text(1));
  queue_.Next();  // a step
  queue_.Update(1, Step(Text(1), true));
  ASSERT_OK(queue_.Admit({.pictures = {2, 3, 4}, .need = Text(1)}));
  for (PictureId picture : {2, 3, 4}) {
    const Unit unit = *queue_.Next();
    EXPECT_EQ(unit.kind, UnitKind::kText);
    EXPECT_THAT(unit.pictures, ElementsAre(picture));
    queue_.Update(picture, Step(Text(1), false));
  }
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(1, 2, 3, 4));
}

// Such as when a graph of more rows has been evicted.
TEST_F(SharedStepsTest, WhereAnEvaluationHasTooFewRowsTheyTakeTurns) {
  Need few = Text(2);
  few.lane_rows = 2;
  for (PictureId picture : {1, 2}) {
    Begin(picture, Text(2));
    queue_.Update(picture, Step(few, /*joined=*/true));
  }
  Admit(3, few);
  for (int turn = 0; turn < 2; ++turn) {  // and no picture begins
    EXPECT_THAT(queue_.Next()->pictures, ElementsAre(2));
    EXPECT_THAT(queue_.Next()->pictures, ElementsAre(1));
  }
}

TEST_F(SharedStepsTest, NoMoreBeginThanTheLaneHasMemoryFor) {
  Need joined = Step(Text(2), /*joined=*/true);
  joined.lane_capacity = 2;
  Begin(1, Text(2));
  queue_.Update(1, joined);
  Admit(2, Text(2));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(queue_.Next()->pictures, ElementsAre(1));
}

TEST_F(SharedStepsTest, ADecodeComesBeforeWhatBeginsAndStepsBetweenDecodes) {
  for (PictureId picture : {1, 2, 3}) Begin(picture, Text(1));
  for (PictureId picture : {1, 2}) queue_.Update(picture, Decode(Text(1)));
  queue_.Update(3, Step(Text(1), /*joined=*/true));
  Admit(4, Text(1));
  std::vector<PictureId> ran;
  for (int i = 0; i < 6; ++i) {
    const Unit unit = *queue_.Next();
    ran.push_back(unit.pictures[0]);
    if (unit.kind == UnitKind::kDecode) queue_.Remove(unit.pictures[0]);
    if (unit.kind == UnitKind::kText) queue_.Update(4, Step(Text(1), /*joined=*/true));
  }
  EXPECT_THAT(ran, ElementsAre(1, 3, 2, 4, 3, 3));
}

TEST_F(SharedStepsTest, LanesTakeTurns) {
  Begin(1, Text(1));
  Begin(2, Text(1, kOther));
  std::vector<PictureId> stepped;
  for (int i = 0; i < 6; ++i) {
    const Unit unit = *queue_.Next();
    stepped.push_back(unit.pictures.front());
    queue_.Measure(unit, 1, absl::Milliseconds(unit.lane == kLane ? 10 : 20));
  }
  EXPECT_EQ(std::count(stepped.begin(), stepped.end(), 1u), 4);
}

TEST_F(SharedStepsTest, AnUrgentPicturesLaneHasMoreOfTheDevice) {
  Begin(1, Text(1));
  ASSERT_OK(queue_.Admit({.pictures = {2}, .need = Text(1, kOther), .priority = 2}));
  for (int i = 0; i < 10 && queue_.Next()->pictures[0] != 2; ++i) continue;
  queue_.Update(2, Step(Text(1, kOther), /*joined=*/false));
  std::map<PictureId, int> steps;
  for (int i = 0; i < 50; ++i) {
    const Unit unit = *queue_.Next();
    ++steps[unit.pictures.front()];
    queue_.Measure(unit, 1, absl::Milliseconds(10));
  }
  EXPECT_NEAR(steps[2], 40, 2);
}

// Random arrivals, ends and failures: each picture gets its units in their order, steps in every
// evaluation of its lane once it has rows, and ends; no evaluation has more rows than there are.
class RandomSchedule {
 public:
  explicit RandomSchedule(uint32_t seed) : random_(seed) {}

  void Run() {
    while (next_id_ <= 24 || !pictures_.empty()) {
      if (Chance(4) && next_id_ <= 24) Admit();
      if (Chance(16) && !pictures_.empty()) Remove(Any());
      if (const auto unit = queue_.Next(!Chance(8))) RunUnit(*unit);
      clock_.Advance(absl::Milliseconds(1));
    }
    EXPECT_EQ(queue_.size(), 0);
    EXPECT_FALSE(queue_.CanRun());
  }

 private:
  struct State {
    Need need;
    int steps = 0;
  };

  bool Chance(int one_of) { return random_() % one_of == 0; }
  PictureId Any() { return std::next(pictures_.begin(), random_() % pictures_.size())->first; }

  void Admit() {
    const Need need = Text(1 + static_cast<int>(random_() % 2), Chance(2) ? kLane : kOther);
    std::vector<PictureId> ids;
    for (uint32_t i = 0; i <= random_() % 3; ++i) ids.push_back(next_id_++);
    ASSERT_OK(queue_.Admit({.pictures = ids, .need = need}));
    for (PictureId id : ids) pictures_[id] = {need, 1 + static_cast<int>(random_() % 6)};
  }
  void Remove(PictureId id) {
    queue_.Remove(id);
    pictures_.erase(id);
  }

  void RunUnit(const Unit& unit) {
    queue_.Measure(unit, 1, absl::Microseconds(random_() % 5000));
    if (unit.kind != UnitKind::kStep) {
      ASSERT_EQ(unit.pictures.size(), 1u);
      return RunOther(unit.pictures[0], unit.kind);
    }
    int rows = 0;
    std::vector<PictureId> members(unit.pictures.begin(), unit.pictures.end());
    for (PictureId id : members) {
      ASSERT_TRUE(pictures_.contains(id));
      EXPECT_EQ(pictures_[id].need.kind, UnitKind::kStep);
      EXPECT_EQ(pictures_[id].need.lane, unit.lane);
      rows += pictures_[id].need.next_rows();
    }
    EXPECT_LE(rows, 4);
    for (const auto& [id, state] : pictures_) {
      const bool is_member = std::find(members.begin(), members.end(), id) != members.end();
      const bool has_rows = state.need.joined && state.need.lane == unit.lane;
      EXPECT_TRUE(is_member || !has_rows) << "a picture with rows was left out";
    }
    for (PictureId id : members) Advance(id);
  }

  void RunOther(PictureId id, UnitKind kind) {
    ASSERT_TRUE(pictures_.contains(id));
    Need& need = pictures_[id].need;
    if (kind == UnitKind::kPreview) {
      EXPECT_TRUE(std::exchange(need.preview, false));
      return queue_.Update(id, need);
    }
    ASSERT_EQ(need.kind, kind);
    if (kind == UnitKind::kDecode) return Remove(id);
    need = Step(need, /*joined=*/false);
    queue_.Update(id, need);
  }

  void Advance(PictureId id) {
    State& state = pictures_[id];
    state.need.joined = true;
    state.need.preview = state.need.preview || Chance(3);
    if (--state.steps == 0) state.need = Decode(state.need);
    queue_.Update(id, state.need);
  }

  std::mt19937 random_;
  FakeClock clock_;
  Queue queue_{{.pictures = 1000}, clock_};
  std::map<PictureId, State> pictures_;
  PictureId next_id_ = 1;
};

TEST(RandomScheduleTest, EveryPictureGetsItsUnitsAndEnds) {
  for (uint32_t seed = 0; seed < 10000; ++seed) {
    RandomSchedule(seed).Run();
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace latentd::batching
