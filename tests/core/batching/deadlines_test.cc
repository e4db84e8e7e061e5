// Order by deadlines where taking turns would miss one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "core/batching/queue.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::batching {
namespace {

using ::latentd::testing::FakeClock;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr Lane kLane{.width = 64, .height = 64}, kOther{.width = 96, .height = 64};

// A step takes a second for each row: nothing is gained by sharing it. A lane evaluates four rows
// at once, and has eight.
class DeadlinesTest : public ::testing::Test {
 protected:
  DeadlinesTest() {
    for (int rows : {1, 2, 4}) Learn(rows, absl::Seconds(rows));
  }

  void Learn(int rows, absl::Duration step) {
    for (const Lane& lane : {kLane, kOther}) {
      for (int i = 0; i < 40; ++i)
        queue_.Measure({.kind = UnitKind::kStep, .lane = lane}, rows, step);
    }
  }

  struct Options {
    int steps = 10, rows = 2;
    absl::Duration deadline = absl::InfiniteDuration();
    Lane lane = kLane;
  };
  absl::Status Admit(PictureId picture, const Options& options) {
    needs_[picture] = {
        .kind = UnitKind::kText,
        .lane = options.lane,
        .lane_rows = 4,
        .lane_places = 8,
        .ahead = {.stages = {{{options.lane, true, {{options.steps, options.rows}}}}}}};
    return queue_
        .Admit({.pictures = {picture},
                .need = needs_[picture],
                .deadline = clock_.Monotonic() + options.deadline})
        .status();
  }

  // The next unit, which takes its time.
  Unit Run() {
    const Unit unit = queue_.Next().value();
    clock_.Advance(unit.expected);
    queue_.Measure(unit, 0, unit.expected);
    for (PictureId picture : unit.pictures) Advance(picture, unit.kind);
    return unit;
  }
  void Advance(PictureId picture, UnitKind ran) {
    Need& need = needs_.at(picture);
    Ahead::Stage& stage = need.ahead.stages[0];
    need.joined = ran == UnitKind::kStep;
    if (need.joined && --stage.runs[0].count == 0) stage.runs.clear();
    stage.text = false;
    need.kind = UnitKind::kStep;
    !stage.runs.empty() ? queue_.Update(picture, need) : queue_.Remove(picture);
  }
  // The pictures of the next steps.
  std::vector<std::vector<PictureId>> Steps(int count) {
    std::vector<std::vector<PictureId>> steps;
    while (static_cast<int>(steps.size()) < count) {
      const Unit unit = Run();
      if (unit.kind != UnitKind::kStep) continue;
      steps.emplace_back(unit.pictures.begin(), unit.pictures.end());
    }
    return steps;
  }

  FakeClock clock_;
  Queue queue_{{.pictures = 100}, clock_};
  std::map<PictureId, Need> needs_;
};

TEST_F(DeadlinesTest, PicturesTakeTurnsWhereAllAreInTime) {
  ASSERT_OK(Admit(1, {.deadline = absl::Seconds(100)}));
  Steps(1);
  ASSERT_OK(Admit(2, {.deadline = absl::Seconds(100)}));
  EXPECT_THAT(Steps(3), Each(ElementsAre(1, 2)));
}

// Together they would end after 8 + 20 s.
TEST_F(DeadlinesTest, AShortPicturePassesALongOneForItsDeadline) {
  ASSERT_OK(Admit(1, {.steps = 12, .deadline = absl::Seconds(50)}));
  Steps(1);
  ASSERT_OK(Admit(2, {.steps = 2, .deadline = absl::Seconds(6)}));
  const auto steps = Steps(3);
  EXPECT_THAT(steps, ElementsAre(ElementsAre(2), ElementsAre(2), ElementsAre(1)));
}

TEST_F(DeadlinesTest, WhatFitsInNoOrderIsRefused) {
  ASSERT_OK(Admit(1, {.steps = 10, .deadline = absl::Seconds(23)}));
  EXPECT_THAT(Admit(2, {.steps = 2, .deadline = absl::Seconds(6)}), Not(testing::IsOk()));
  EXPECT_OK(Admit(3, {.steps = 2, .deadline = absl::Seconds(30)}));
}

TEST_F(DeadlinesTest, SoDoesOneOfAnotherLane) {
  ASSERT_OK(Admit(1, {.steps = 12, .deadline = absl::Seconds(50)}));
  Steps(1);
  ASSERT_OK(Admit(2, {.steps = 2, .deadline = absl::Seconds(6), .lane = kOther}));
  EXPECT_THAT(Steps(3), ElementsAre(ElementsAre(2), ElementsAre(2), ElementsAre(1)));
}

// It has had no turn for what it got in a hurry.
TEST_F(DeadlinesTest, TurnsGoOnWhereTheyWere) {
  ASSERT_OK(Admit(1, {.steps = 100}));
  ASSERT_OK(Admit(2, {.steps = 100, .lane = kOther}));
  const auto before = Steps(2);
  ASSERT_OK(Admit(3, {.steps = 10, .deadline = absl::Seconds(24)}));
  EXPECT_THAT(Steps(10), Each(ElementsAre(3)));
  EXPECT_EQ(Steps(2), before);
}

// Four rows take as long as two.
TEST_F(DeadlinesTest, OthersTakePartWhereTheirRowsCostLittle) {
  Learn(4, absl::Seconds(2));
  ASSERT_OK(Admit(1, {.steps = 30, .deadline = absl::Seconds(90)}));
  ASSERT_OK(Admit(2, {.steps = 30, .lane = kOther}));
  Steps(2);
  ASSERT_OK(Admit(3, {.steps = 2, .deadline = absl::Seconds(6)}));
  EXPECT_THAT(Steps(2), Each(UnorderedElementsAre(1, 3)));
}

// Its lane has no room although the queue thought so.
TEST_F(DeadlinesTest, WhoFindsNoRowsLetsOthersGoFirst) {
  ASSERT_OK(Admit(1, {.steps = 12, .deadline = absl::Seconds(50)}));
  Steps(1);
  ASSERT_OK(Admit(2, {.steps = 2, .deadline = absl::Seconds(6)}));
  EXPECT_EQ(Run().kind, UnitKind::kText);
  const Unit refused = queue_.Next().value();
  EXPECT_THAT(refused.pictures, ElementsAre(2));
  queue_.Update(2, needs_.at(2));
  queue_.Measure(refused, 0, absl::ZeroDuration());
  const Unit next = queue_.Next().value();
  EXPECT_THAT(next.pictures, ElementsAre(1));
  queue_.Measure(next, 2, absl::Seconds(2));
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(2));  // there may be rows now
}

}  // namespace
}  // namespace latentd::batching
