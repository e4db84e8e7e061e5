#include "core/base/process/memory_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "core/base/errors/error_details.h"
#include "tests/support/status_matchers.h"

namespace latentd {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

TEST(MemoryRoomTest, RefusesMoreThanThereIsAndSaysHowMuchThatIs) {
  const absl::Status refused = MemoryRoom::Take(int64_t{1} << 60, "a picture").status();
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted,
                                HasSubstr("a picture needs 1152921504606846976 bytes")));
  EXPECT_EQ(GetReason(refused), "OUT_OF_MEMORY");
  EXPECT_EQ(MemoryRoom::taken(), 0);
}

TEST(MemoryRoomTest, CountsWhatIsTakenUntilItIsDone) {
  {
    ASSERT_OK_AND_ASSIGN(MemoryRoom first, MemoryRoom::Take(3, "a picture"));
    ASSERT_OK_AND_ASSIGN(const MemoryRoom second, MemoryRoom::Take(4, "another"));
    EXPECT_EQ(MemoryRoom::taken(), 7);
    const MemoryRoom moved = std::move(first);
    EXPECT_EQ(MemoryRoom::taken(), 7);
  }
  EXPECT_EQ(MemoryRoom::taken(), 0);
}

}  // namespace
}  // namespace latentd
