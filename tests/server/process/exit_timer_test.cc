#include "server/process/lifetime/exit_timer.h"

#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"

namespace latentd::server::process {
namespace {

TEST(ExitTimerTest, CallsExitWhenTheTimeIsUp) {
  ExitTimer timer;
  absl::Notification exited;
  timer.Start(absl::ZeroDuration(), [&] { exited.Notify(); });
  exited.WaitForNotification();
}

TEST(ExitTimerTest, CallsNothingOnceItIsGone) {
  bool exited = false;
  {
    ExitTimer timer;
    timer.Start(absl::Hours(1), [&] { exited = true; });
  }
  EXPECT_FALSE(exited);
}

TEST(ExitTimerTest, GoesWithoutHavingBeenStarted) { ExitTimer timer; }

}  // namespace
}  // namespace latentd::server::process
