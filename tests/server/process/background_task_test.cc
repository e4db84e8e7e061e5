#include "server/process/lifetime/background_task.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>

#include "absl/synchronization/notification.h"

namespace latentd::server::process {
namespace {

TEST(BackgroundTaskTest, WhoAsksDoesNotWaitForWorkThatHangs) {
  absl::Notification begun, answer;
  std::atomic<int> runs = 0;
  BackgroundTask task("test", [&] {
    if (++runs > 1) return;
    begun.Notify();
    answer.WaitForNotification();
  });
  task.RunSoon();
  begun.WaitForNotification();
  for (int i = 0; i < 10; ++i) task.RunSoon();
  EXPECT_FALSE(task.WaitUntilDone(absl::ZeroDuration()));
  answer.Notify();
  EXPECT_TRUE(task.WaitUntilDone(absl::InfiniteDuration()));
  EXPECT_EQ(runs, 1);
  task.RunSoon();
  EXPECT_TRUE(task.WaitUntilDone(absl::InfiniteDuration()));
  EXPECT_EQ(runs, 2);
}

TEST(BackgroundTaskTest, WorkThatRunsOutOfMemoryIsDoneAgain) {
  std::atomic<int> runs = 0;
  BackgroundTask task("test", [&] {
    if (++runs == 1) throw std::bad_alloc();
  });
  for (int i = 0; i < 2; ++i) {
    task.RunSoon();
    EXPECT_TRUE(task.WaitUntilDone(absl::InfiniteDuration()));
  }
  EXPECT_EQ(runs, 2);
}

TEST(BackgroundTaskTest, TheEndDoesWhatWasAskedFor) {
  std::atomic<int> runs = 0;
  {
    BackgroundTask task("test", [&] { ++runs; });
    task.RunSoon();
  }
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace latentd::server::process
