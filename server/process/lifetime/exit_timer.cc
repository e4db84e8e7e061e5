#include "server/process/lifetime/exit_timer.h"

#include <utility>

#include "core/base/threads/threads.h"

namespace latentd::server::process {

ExitTimer::ExitTimer() : thread_(StartThread("exit timer", [this] { Loop(); })) {}

ExitTimer::~ExitTimer() {
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
  }
  thread_.join();
}

void ExitTimer::Start(absl::Duration timeout, std::function<void()> exit) {
  absl::MutexLock lock(&mutex_);
  timeout_ = timeout;
  exit_ = std::move(exit);
}

void ExitTimer::Loop() {
  std::function<void()> exit;
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &ExitTimer::started));
    if (mutex_.AwaitWithTimeout(absl::Condition(this, &ExitTimer::ended), timeout_)) return;
    exit = exit_;
  }
  exit();
}

}  // namespace latentd::server::process
