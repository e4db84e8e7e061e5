#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>
#include <memory>
#include <string>

#include "core/backends/cpu/binding/arena.h"
#include "core/base/errors/error_details.h"
#include "core/base/files/files.h"
#include "core/base/process/memory_limit.h"
#include "tests/core/cache/child_process.h"
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
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("ulimit -v")));
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

TEST(ArenaTest, ReservesNoMoreThanItMayTake) {
  ASSERT_OK_AND_ASSIGN(const auto arena, Arena::Reserve(size_t{32} << 20));
  EXPECT_EQ(arena->reserved(), size_t{32} << 20);
  EXPECT_OK(arena->Take(size_t{32} << 20));
  EXPECT_EQ(arena->Take(size_t{33} << 20).status().code(), absl::StatusCode::kResourceExhausted);
}

// As `ulimit -v` does: so many bytes more than are mapped now.
void LimitAddresses(int64_t more) {
  const std::string statm = ReadFile("/proc/self/statm", 4096).value();
  const auto mapped = static_cast<rlim_t>(std::stoll(statm) * sysconf(_SC_PAGESIZE));
  struct rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  limit.rlim_cur = mapped + static_cast<rlim_t>(more);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

TEST(ArenaTest, LeavesHalfOfLimitedAddressesToOthers) {
  const auto child = [] {
    LimitAddresses(int64_t{512} << 20);
    ASSERT_OK_AND_ASSIGN(const auto arena, Arena::Reserve());
    EXPECT_LE(arena->reserved(), size_t{256} << 20);
    EXPECT_GE(arena->reserved(), size_t{200} << 20);
    ASSERT_OK_AND_ASSIGN(const auto lease, arena->Take(size_t{64} << 20));
    lease->base()[(64 << 20) - 1] = 1;
    EXPECT_THAT(arena->Take(size_t{300} << 20),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("ulimit -v")));
    EXPECT_NE(std::malloc(size_t{200} << 20), nullptr);  // NOLINT: the child ends
  };
  EXPECT_EQ(::latentd::testing::RunInChild(child), 0);
}

TEST(ArenaTest, NamesTheLimitThatLeavesNoAddresses) {
  const auto child = [] {
    LimitAddresses(int64_t{4} << 20);
    const auto refused = Arena::Reserve(size_t{1} << 30);
    EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("ulimit -v")));
    EXPECT_EQ(GetReason(refused.status()), "OUT_OF_MEMORY");
  };
  EXPECT_EQ(::latentd::testing::RunInChild(child), 0);
}

}  // namespace
}  // namespace latentd::backends::cpu
