#include "server/process/memory/client_memory.h"

#include <gtest/gtest.h>

namespace latentd::server::process {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

ClientMemory Of(int64_t memory, int64_t max_request_bytes = 32 * kMiB, int64_t configured = 0,
                int64_t picture_bytes = 0, bool keeps_videos = false) {
  return ClientMemoryOf(memory, configured, max_request_bytes, picture_bytes, keeps_videos);
}

TEST(ClientMemoryTest, IsAnEighthEachOfWhatTheProcessMayUse) {
  EXPECT_EQ(Of(640 * kMiB).received_bytes, 80 * kMiB);
  EXPECT_EQ(Of(640 * kMiB).picture_bytes, 80 * kMiB);
  EXPECT_EQ(Of(640 * kMiB).video_bytes, 80 * kMiB);
  EXPECT_EQ(Of(64 * kGiB, 32 * kMiB, /*configured=*/640 * kMiB).received_bytes, 80 * kMiB);
  EXPECT_EQ(Of(64 * kGiB, 32 * kMiB, /*configured=*/640 * kMiB).picture_bytes, 80 * kMiB);
}

TEST(ClientMemoryTest, HasRoomForOneRequestWithWhatIsAroundIt) {
  EXPECT_EQ(Of(100 * kMiB).received_bytes, 40 * kMiB);
  EXPECT_EQ(Of(64 * kMiB, 8 * kMiB).received_bytes, 10 * kMiB);
  EXPECT_EQ(Of(0, 512 * kMiB).received_bytes, 640 * kMiB);
}

TEST(ClientMemoryTest, TakesNoMoreThanIsOfUse) {
  EXPECT_EQ(Of(64 * kGiB).received_bytes, 256 * kMiB);
  EXPECT_EQ(Of(64 * kGiB, 2 * kMiB).received_bytes, 256 * kMiB);
  EXPECT_EQ(Of(64 * kGiB, 100 * kMiB).received_bytes, 800 * kMiB);
  EXPECT_EQ(Of(64 * kGiB).picture_bytes, 512 * kMiB);
  EXPECT_EQ(Of(64 * kGiB).video_bytes, 256 * kMiB);
  EXPECT_EQ(Of(64 * kGiB, 32 * kMiB, 0, /*picture_bytes=*/kGiB).picture_bytes, kGiB);
}

TEST(ClientMemoryTest, LeavesTheRestToTheEngine) {
  // Received, pictures, the request that is read, the log, and what nothing counts.
  EXPECT_EQ(Of(640 * kMiB).engine_bytes, (640 - 80 - 80 - 32 - 4 - 72) * kMiB);
  EXPECT_EQ(Of(640 * kMiB, 32 * kMiB, /*configured=*/500 * kMiB).engine_bytes,
            (640 - 125 - 32 - 4 - 72) * kMiB);
  EXPECT_EQ(Of(640 * kMiB, 32 * kMiB, 0, 0, /*keeps_videos=*/true).engine_bytes,
            (640 - 80 - 80 - 80 - 32 - 4 - 72) * kMiB);
  EXPECT_EQ(Of(640 * kMiB, 32 * kMiB, /*configured=*/100 * kMiB).engine_bytes, 100 * kMiB);
  EXPECT_GT(Of(10 * kMiB).engine_bytes, 0);  // none: the engine would take all
}

}  // namespace
}  // namespace latentd::server::process
