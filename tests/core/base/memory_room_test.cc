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

constexpr auto kDecode = MemoryRoom::Purpose::kDecodeImage;
constexpr auto kEncode = MemoryRoom::Purpose::kEncodeVideo;

TEST(MemoryRoomTest, RefusesMoreThanThereIsAndSaysHowMuchThatIs) {
  const absl::Status refused = MemoryRoom::Take(int64_t{1} << 60, "a picture").status();
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted,
                                HasSubstr("a picture needs 1152921504606846976 bytes")));
  EXPECT_EQ(GetReason(refused), "OUT_OF_MEMORY");
  EXPECT_EQ(MemoryRoom::taken(kDecode), 0);
}

TEST(MemoryRoomTest, CountsWhatIsTakenUntilItIsDone) {
  {
    ASSERT_OK_AND_ASSIGN(MemoryRoom first, MemoryRoom::Take(3, "a picture"));
    ASSERT_OK_AND_ASSIGN(const MemoryRoom second, MemoryRoom::Take(4, "another"));
    EXPECT_EQ(MemoryRoom::taken(kDecode), 7);
    const MemoryRoom moved = std::move(first);
    EXPECT_EQ(MemoryRoom::taken(kDecode), 7);
  }
  EXPECT_EQ(MemoryRoom::taken(kDecode), 0);
}

TEST(MemoryRoomTest, CountsEachPurposeByItself) {
  ASSERT_OK_AND_ASSIGN(const MemoryRoom image, MemoryRoom::Take(3, "a picture"));
  ASSERT_OK_AND_ASSIGN(MemoryRoom video, MemoryRoom::Take(4, "an encoder", kEncode));
  const MemoryRoom moved = std::move(video);
  EXPECT_EQ(MemoryRoom::taken(kDecode), 3);
  EXPECT_EQ(MemoryRoom::taken(kEncode), 4);
}

}  // namespace
}  // namespace latentd
