#include "core/base/threads/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"

namespace latentd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(WorkerTest, RunsTasksInOrderAndTheRestWhenItGoes) {
  std::vector<int> ran;
  absl::Notification go;
  {
    Worker worker("test");
    worker.Add([&] { go.WaitForNotification(); });
    for (int i = 0; i < 5; ++i) worker.Add([&ran, i] { ran.push_back(i); });
    EXPECT_THAT(ran, IsEmpty());
    go.Notify();
  }
  EXPECT_THAT(ran, ElementsAre(0, 1, 2, 3, 4));
}

TEST(WorkerTest, StopRunsWhatTasksAddTooAndMayComeTwice) {
  std::vector<int> ran;
  Worker worker("test", 1);
  worker.Add([&] {
    ran.push_back(0);
    worker.Continue([&] {
      ran.push_back(1);
      worker.Continue([&] { ran.push_back(2); });
    });
  });
  worker.Stop();
  EXPECT_THAT(ran, ElementsAre(0, 1, 2));
  worker.Stop();
}

TEST(WorkerTest, RunWaitsForTheTaskAndWhatCameBefore) {
  Worker worker("test");
  int value = 1;
  worker.Add([&] { value *= 10; });
  worker.Run([&] { value += 1; });
  EXPECT_EQ(value, 11);
}

TEST(WorkerTest, ATaskThatThereIsNoMemoryForHasEnded) {
  Worker worker("test", 1);
  worker.Add([] { throw std::bad_alloc(); });
  int value = 1;
  worker.Add([&] { value += 1; });
  EXPECT_THROW(worker.Run([] { throw std::bad_alloc(); }), std::bad_alloc);
  worker.Flush();
  EXPECT_EQ(value, 2);
}

TEST(WorkerTest, FlushWaitsForWhatCameBefore) {
  Worker worker("test", 100);
  int ran = 0;
  for (int i = 0; i < 3; ++i) worker.Add([&] { ++ran; }, 50);
  worker.Flush();
  EXPECT_EQ(ran, 3);
}

TEST(WorkerTest, WhoAddsTooMuchWaitsForRoom) {
  Worker worker("test", 100);
  absl::Notification go;
  std::atomic<bool> first_ran = false;
  worker.Add(
      [&] {
        go.WaitForNotification();
        first_ran = true;
      },
      60);
  worker.Add([] {}, 40);  // goes in
  EXPECT_FALSE(worker.TryAdd([] {}, 40));
  bool had_run = false;
  std::thread adder([&] {
    worker.Add([] {}, 40);
    had_run = first_ran;
  });
  go.Notify();
  adder.join();
  EXPECT_TRUE(had_run);
}

TEST(WorkerTest, OneThatIsLargerThanTheBoundGoesAlone) {
  Worker worker("test", 100);
  absl::Notification go;
  worker.Add([&] { go.WaitForNotification(); }, 1000);
  EXPECT_FALSE(worker.TryAdd([] {}, 1));
  go.Notify();
  worker.Flush();
  // The large one has left; so soon after it ran that only waiting for room can show it.
  bool ran = false;
  worker.Add([&] { ran = true; }, 1000);
  worker.Flush();
  EXPECT_TRUE(ran);
}

TEST(WorkerTest, RefusesWhatThereIsNoRoomFor) {
  int ran = 0;
  absl::Notification go;
  {
    Worker worker("test", 3);  // one that runs, and two that wait
    worker.Add([&] { go.WaitForNotification(); });
    EXPECT_TRUE(worker.TryAdd([&] { ++ran; }));
    EXPECT_TRUE(worker.TryAdd([&] { ++ran; }));
    EXPECT_FALSE(worker.TryAdd([&] { ran = 100; }));
    worker.Continue([&] { ++ran; });
    go.Notify();
  }
  EXPECT_EQ(ran, 3);
}

TEST(WorkerTest, LetsGoOfWhatItRanBeforeThereIsRoomForMore) {
  Worker worker("test", 100);
  auto kept = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = kept;
  worker.Add([kept = std::move(kept)] {}, 100);
  worker.Add([] {}, 100);
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace latentd
