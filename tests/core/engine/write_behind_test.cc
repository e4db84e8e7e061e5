#include "core/engine/write_behind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"

namespace latentd::engine {
namespace {

using ::testing::ElementsAre;

TEST(WriteBehindTest, WritesInOrderAndTheRestWhenItGoes) {
  std::vector<int> written;
  absl::Notification go;
  {
    WriteBehind writes(100);
    writes.Add(1, [&] { go.WaitForNotification(); });
    for (int i = 0; i < 3; ++i) writes.Add(1, [&written, i] { written.push_back(i); });
    EXPECT_THAT(written, ElementsAre());
    go.Notify();
  }
  EXPECT_THAT(written, ElementsAre(0, 1, 2));
}

TEST(WriteBehindTest, FlushWaitsForWhatCameBefore) {
  WriteBehind writes(100);
  int written = 0;
  for (int i = 0; i < 3; ++i) writes.Add(1, [&] { ++written; });
  writes.Flush();
  EXPECT_EQ(written, 3);
}

TEST(WriteBehindTest, WhoAddsTooMuchWaitsForRoom) {
  WriteBehind writes(100);
  absl::Notification go;
  std::atomic<bool> first_written = false;
  writes.Add(60, [&] {
    go.WaitForNotification();
    first_written = true;
  });
  writes.Add(40, [] {});  // goes in
  bool was_written = false;
  std::thread adder([&] {
    writes.Add(40, [] {});
    was_written = first_written;
  });
  go.Notify();
  adder.join();
  EXPECT_TRUE(was_written);
}

TEST(WriteBehindTest, OneThatIsLargerThanTheBoundGoesAlone) {
  WriteBehind writes(100);
  bool written = false;
  writes.Add(1000, [&] { written = true; });
  writes.Flush();
  EXPECT_TRUE(written);
}

TEST(WriteBehindTest, LetsGoOfWhatItWroteBeforeThereIsRoomForMore) {
  WriteBehind writes(100);
  auto kept = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = kept;
  writes.Add(100, [kept = std::move(kept)] {});
  writes.Add(100, [] {});
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace latentd::engine
