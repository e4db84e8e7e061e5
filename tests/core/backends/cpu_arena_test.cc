#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "core/backends/cpu/arena.h"
#include "core/base/error_details.h"
#include "core/base/memory_limit.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::cpu {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::HasSubstr;

TEST(ArenaTest, IsAsLargeAsItsLargestLease) {
  ASSERT_OK_AND_ASSIGN(const auto arena, Arena::Reserve());
  ASSERT_OK_AND_ASSIGN(const auto small, arena->Take(100));
  {
    ASSERT_OK_AND_ASSIGN(const auto large, arena->Take(5 << 20));
    EXPECT_EQ(arena->bytes(), 5u << 20);
    EXPECT_EQ(large->base(), small->base());
    large->base()[(5 << 20) - 1] = 1;
  }
  EXPECT_EQ(arena->bytes(), 100u);
  small->base()[99] = 1;
}

TEST(ArenaTest, RefusesMoreThanTheMachineHas) {
  ASSERT_OK_AND_ASSIGN(const auto arena, Arena::Reserve());
  const auto refused = arena->Take(std::numeric_limits<size_t>::max() / 2);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("machine has")));
  EXPECT_EQ(GetReason(refused.status()), "OUT_OF_MEMORY");
}

TEST(ArenaTest, RefusesMoreThanIsAvailableAndGoesOn) {
  ASSERT_OK_AND_ASSIGN(const auto arena, Arena::Reserve());
  const auto available = static_cast<size_t>(MeasureAvailableMemory().bytes);
  const auto refused = arena->Take(available + (available >> 5));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetReason(refused.status()), "OUT_OF_MEMORY");
  EXPECT_OK(arena->Take(4096));
}

}  // namespace
}  // namespace latentd::backends::cpu
