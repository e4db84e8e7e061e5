#include "core/base/memory_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error_details.h"
#include "tests/support/status_matchers.h"

namespace latentd {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

TEST(CheckMemoryRoomTest, RefusesMoreThanThereIsAndSaysHowMuchThatIs) {
  EXPECT_OK(CheckMemoryRoom(1, "a picture"));
  const absl::Status refused = CheckMemoryRoom(int64_t{1} << 60, "a picture");
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted,
                                HasSubstr("a picture needs 1152921504606846976 bytes")));
  EXPECT_EQ(GetReason(refused), "OUT_OF_MEMORY");
}

}  // namespace
}  // namespace latentd
