#include "core/graph/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/status_matchers.h"

namespace latentd::graph {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

// Like a network: mostly short lives, now and then one that crosses many steps.
std::vector<LiveValue> RandomTrace(uint32_t seed, int steps) {
  std::mt19937 random(seed);
  std::vector<LiveValue> values;
  for (int step = 0; step < steps; ++step) {
    const size_t bytes =
        (random() % 4 == 0 ? 1 << 20 : 1 << 12) * (1 + random() % 8) + random() % 3;
    const int life = random() % 8 == 0 ? 1 + random() % 40 : 1 + random() % 3;
    values.push_back({bytes, step, std::min(step + life, steps)});
  }
  return values;
}

TEST(PlanMemory, GivesNothingToNothing) {
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory({}));
  EXPECT_EQ(plan.arena_bytes, 0u);
}

TEST(PlanMemory, GivesTheSameMemoryToValuesThatNeverMeet) {
  const LiveValue values[] = {{1000, 0, 1}, {1000, 2, 3}, {500, 4, 4}};
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory(values));
  EXPECT_EQ(plan.arena_bytes, 1024u);
}

TEST(PlanMemory, KeepsApartValuesThatShareOneStep) {
  const LiveValue values[] = {{64, 0, 1}, {64, 1, 2}};
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory(values));
  EXPECT_NE(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.arena_bytes, 128u);
}

TEST(PlanMemory, RandomTracesAreValidAndNearTheLowerBound) {
  double ratios = 0;
  for (uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<LiveValue> values = RandomTrace(seed, 400);
    ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory(values));
    EXPECT_OK(CheckPlan(values, plan));
    ASSERT_GE(plan.arena_bytes, PeakBytes(values));
    const double ratio = static_cast<double>(plan.arena_bytes) / PeakBytes(values);
    EXPECT_LE(ratio, 1.25);
    ratios += ratio;
  }
  EXPECT_LE(ratios / 30, 1.08);
}

TEST(PlanMemory, IsDeterministic) {
  const std::vector<LiveValue> values = RandomTrace(3, 200);
  ASSERT_OK_AND_ASSIGN(const MemoryPlan a, PlanMemory(values));
  ASSERT_OK_AND_ASSIGN(const MemoryPlan b, PlanMemory(values));
  EXPECT_EQ(a.offsets, b.offsets);
}

TEST(PlanMemory, RefusesSizesThatOverflow) {
  const LiveValue values[] = {{size_t{1} << 60, 0, 1}, {size_t{1} << 63, 0, 1}};
  EXPECT_THAT(PlanMemory(values),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("2^60")));
}

// The result of CheckPlan, by comparing every pair.
bool Overlaps(absl::Span<const LiveValue> values, const MemoryPlan& plan) {
  for (size_t a = 0; a < values.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      const bool together =
          values[a].first_use <= values[b].last_use && values[b].first_use <= values[a].last_use;
      if (together && plan.offsets[a] < plan.offsets[b] + values[b].bytes &&
          plan.offsets[b] < plan.offsets[a] + values[a].bytes) {
        return true;
      }
    }
  }
  return false;
}

TEST(CheckPlan, FindsExactlyTheOverlaps) {
  std::mt19937 random(5);
  int bad = 0;
  for (int round = 0; round < 500; ++round) {
    const std::vector<LiveValue> values = RandomTrace(round, 12);
    ASSERT_OK_AND_ASSIGN(MemoryPlan plan, PlanMemory(values));
    plan.offsets[random() % 12] = random() % (plan.arena_bytes / 64) * 64;
    plan.arena_bytes *= 20;
    const bool overlaps = Overlaps(values, plan);
    EXPECT_EQ(CheckPlan(values, plan).ok(), !overlaps) << round;
    bad += overlaps;
  }
  EXPECT_GT(bad, 50);
  EXPECT_LT(bad, 450);
}

TEST(CheckPlan, RefusesWhatIsUnalignedOrOutside) {
  const LiveValue values[] = {{100, 0, 0}};
  EXPECT_OK(CheckPlan(values, {{0}, 128}));
  EXPECT_THAT(CheckPlan(values, {{32}, 1024}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not aligned")));
  EXPECT_THAT(CheckPlan(values, {{64}, 128}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("outside the arena")));
  EXPECT_THAT(CheckPlan(values, {{size_t{0} - 64}, 128}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("outside the arena")));
  EXPECT_THAT(CheckPlan(values, {{}, 128}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 offsets for 1 values")));
}

}  // namespace
}  // namespace latentd::graph
