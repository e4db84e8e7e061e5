#include "core/engine/task_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/synchronization/notification.h"

namespace latentd::engine {
namespace {

TEST(TaskThreadTest, RunsTasksInOrderAndTheRestWhenItGoes) {
  std::vector<int> ran;
  absl::Notification go;
  {
    TaskThread thread("test");
    thread.Add([&] { go.WaitForNotification(); });
    for (int i = 0; i < 5; ++i) thread.Add([&ran, i] { ran.push_back(i); });
    EXPECT_THAT(ran, ::testing::IsEmpty());
    go.Notify();
  }
  EXPECT_THAT(ran, ::testing::ElementsAre(0, 1, 2, 3, 4));
}

TEST(TaskThreadTest, RunWaitsForTheTaskAndWhatCameBefore) {
  TaskThread thread("test");
  int value = 1;
  thread.Add([&] { value *= 10; });
  thread.Run([&] { value += 1; });
  EXPECT_EQ(value, 11);
}

}  // namespace
}  // namespace latentd::engine
