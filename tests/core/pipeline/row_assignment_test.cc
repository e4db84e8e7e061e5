// Rows of a lane as moves leave them, for any order of pictures that come, change, rest and go.
#include "core/pipeline/lanes/row_assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace latentd::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Member = RowAssignment::Member;

constexpr int kRows = 8;

void AddCounts(RowAssignment& assignment) {
  for (int count : {1, 2, 4, kRows}) assignment.AddCount(count);
}

// The memory of a lane: in each row the picture whose state is there.
class PlayedLane {
 public:
  // Steps of at most so many rows.
  explicit PlayedLane(int most) {
    for (int rows = 1; rows <= most; rows *= 2) assignment_.AddCount(rows);
  }

  void Join(int rows, int most_rows) {
    const auto member = assignment_.Take(rows, most_rows);
    if (!member) return;
    for (int row : assignment_.RowsOf(*member)) memory_[row] = *member;
    steps_[*member] = most_rows;
  }

  void Change(size_t which, int rows) {
    const auto [member, most_rows] = Nth(which);
    if (rows > most_rows) return;
    const int last = assignment_.RowsOf(member).back();
    assignment_.Change(member, rows, most_rows);
    EXPECT_EQ(assignment_.RowsOf(member).back(), last);
    for (int row : assignment_.RowsOf(member)) memory_[row] = memory_[last];
  }

  void Leave(size_t which) {
    const Member member = Nth(which).first;
    assignment_.Free(member);
    steps_.erase(member);
  }

  // Some members, in any order; or none.
  std::vector<Member> Some(std::mt19937& random) const {
    std::vector<Member> some;
    for (const auto& [member, most_rows] : steps_) {
      if (random() % 2 == 0) some.push_back(member);
    }
    std::shuffle(some.begin(), some.end(), random);
    return some;
  }

  // A step of `wanted`, or all, for which there is memory up to so many rows.
  void Step(int most, const std::vector<Member>& wanted) {
    RowAssignment::Plan plan = assignment_.PlanStep(wanted);
    Move(plan);
    while (plan.rows > most && assignment_.LeaveOut(plan.rows)) {
      plan = assignment_.PlanStep(wanted);
      Move(plan);
    }
    CheckPlan(plan);
    if (!wanted.empty()) CheckWanted(wanted);
    assignment_.NoteStep(/*stepped=*/plan.rows <= most);
  }

  bool empty() const { return steps_.empty(); }
  size_t size() const { return steps_.size(); }

 private:
  std::pair<Member, int> Nth(size_t which) { return *std::next(steps_.begin(), which); }

  void Move(const RowAssignment::Plan& plan) {
    for (const auto& [from, to, back] : plan.moves) {
      const Member there = std::exchange(memory_[to], memory_[from]);
      if (back) memory_[from] = there;
    }
  }

  void CheckPlan(const RowAssignment::Plan& plan) {
    int stepping = 0;
    std::set<int> taken;
    for (const auto& [member, most_rows] : steps_) {
      for (int row : assignment_.RowsOf(member)) {
        EXPECT_TRUE(taken.insert(row).second) << "row " << row << " is of two";
        EXPECT_EQ(memory_[row], member);
        EXPECT_EQ(row >= plan.rows, assignment_.Rests(member));
        stepping += row < plan.rows;
      }
    }
    EXPECT_EQ(stepping, plan.taken);
    EXPECT_GT(stepping, 0);
  }

  // Only wanted members step, and the first of them does.
  void CheckWanted(const std::vector<Member>& wanted) const {
    EXPECT_FALSE(assignment_.Rests(wanted.front()));
    for (const auto& [member, most_rows] : steps_) {
      const bool is_wanted = std::find(wanted.begin(), wanted.end(), member) != wanted.end();
      EXPECT_TRUE(is_wanted || assignment_.Rests(member));
    }
  }

  RowAssignment assignment_{kRows};
  std::vector<Member> memory_ = std::vector<Member>(kRows);
  std::map<Member, int> steps_;  // the most rows that each will have
};

TEST(RowAssignmentTest, EachHasItsOwnInAnyOrderOfComingChangingRestingAndGoing) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int end) { return static_cast<int>(random() % end); };
    PlayedLane lane(2 << seed % 3);
    for (int i = 0; i < 60; ++i) {
      const int what = below(4);
      const int rows = 1 + below(2);
      if (what == 0 || lane.empty()) {
        lane.Join(rows, std::max(rows, 1 + below(2)));
      } else if (what == 1) {
        lane.Change(random() % lane.size(), rows);
      } else if (what == 2) {
        lane.Leave(random() % lane.size());
      }
      if (!lane.empty()) lane.Step(/*most=*/1 << below(4), lane.Some(random));
      ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed << ", turn " << i;
    }
  }
}

TEST(RowAssignmentTest, RowsThatAPictureTakesLaterAreKeptForIt) {
  RowAssignment assignment(2);
  assignment.AddCount(2);
  ASSERT_TRUE(assignment.Take(1, 2).has_value());
  EXPECT_EQ(assignment.Take(1, 1), std::nullopt);
  EXPECT_EQ(assignment.taken(), 1);
}

TEST(RowAssignmentTest, OfThoseWhoAreAskedForAsManyStepAsThereAreRowsForTheFirstOnesFirst) {
  RowAssignment assignment(kRows);
  for (int rows : {1, 2, 4}) assignment.AddCount(rows);
  std::vector<Member> all;
  for (int i = 0; i < 4; ++i) all.push_back(*assignment.Take(2, 2));
  const RowAssignment::Plan plan = assignment.PlanStep({{all[3], all[1], all[0]}});
  EXPECT_EQ(plan.rows, 4);
  for (size_t i : {1, 3}) EXPECT_FALSE(assignment.Rests(all[i])) << i;
  for (size_t i : {0, 2}) EXPECT_TRUE(assignment.Rests(all[i])) << i;
}

TEST(RowAssignmentTest, TheLastOneMovesToWhereAnotherLeftWhenFewerRowsWouldDo) {
  RowAssignment assignment(kRows);
  AddCounts(assignment);
  const Member first = *assignment.Take(1, 1), second = *assignment.Take(1, 1);
  EXPECT_THAT(assignment.PlanStep({}).moves, IsEmpty());
  assignment.Free(first);
  const RowAssignment::Plan plan = assignment.PlanStep({});
  ASSERT_EQ(plan.moves.size(), 1u);
  EXPECT_EQ(plan.moves[0].from, 1);
  EXPECT_EQ(plan.moves[0].to, 0);
  EXPECT_FALSE(plan.moves[0].back);
  EXPECT_THAT(plan.moved, ElementsAre(ElementsAre(0)));
  EXPECT_THAT(assignment.RowsOf(second), ElementsAre(0));
}

TEST(RowAssignmentTest, WhoRestedKeepsTheNoiseThatWasDrawnForIt) {
  RowAssignment assignment(kRows);
  AddCounts(assignment);
  const Member steps = *assignment.Take(1, 1), rests = *assignment.Take(1, 1);
  EXPECT_TRUE(assignment.TakeNoise(steps));
  EXPECT_TRUE(assignment.TakeNoise(rests));
  assignment.PlanStep({});
  ASSERT_TRUE(assignment.LeaveOut(2));
  EXPECT_EQ(assignment.PlanStep({}).rows, 1);
  ASSERT_TRUE(assignment.Rests(rests));
  assignment.NoteStep(true);
  EXPECT_TRUE(assignment.TakeNoise(steps));
  EXPECT_FALSE(assignment.TakeNoise(rests));
}

TEST(RowAssignmentTest, TooManyRowsAreToldOnce) {
  RowAssignment assignment(kRows);
  AddCounts(assignment);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(assignment.Take(1, 1).has_value());
  assignment.PlanStep({});
  ASSERT_TRUE(assignment.LeaveOut(4));
  EXPECT_EQ(assignment.NoteStep(true), 4);
  EXPECT_EQ(assignment.capacity(), 2);
  assignment.PlanStep({});
  ASSERT_TRUE(assignment.LeaveOut(2));
  EXPECT_EQ(assignment.NoteStep(true), 0);
}

TEST(RowAssignmentTest, WhoStepsAloneCannotDoWithFewer) {
  RowAssignment assignment(kRows);
  AddCounts(assignment);
  ASSERT_TRUE(assignment.Take(2, 2).has_value());
  EXPECT_EQ(assignment.PlanStep({}).rows, 2);
  EXPECT_FALSE(assignment.LeaveOut(2));
  EXPECT_EQ(assignment.capacity(), kRows);
}

}  // namespace
}  // namespace latentd::pipeline
