#include "client/commands/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <utility>

#include "client/output/error_text.h"
#include "core/base/process/stop_signals.h"
#include "core/base/threads/threads.h"

namespace latentd::client {
namespace {

// For what has been cancelled to end by itself.
constexpr absl::Duration kTimeToEnd = absl::Seconds(2);

}  // namespace

Interrupt::Interrupt(std::function<void()> action)
    : action_(std::move(action)), thread_(StartThread("interrupt", [this] { Loop(); })) {}

Interrupt::~Interrupt() {
  ending_ = true;
  pthread_kill(thread_.native_handle(), SIGINT);
  thread_.join();
}

bool Interrupt::happened() const {
  absl::MutexLock lock(&mutex_);
  return happened_;
}

bool Interrupt::WaitFor(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&happened_), timeout);
}

void Interrupt::Loop() {
  const sigset_t set = StopSignalSet();
  int signal = 0;
  sigwait(&set, &signal);
  if (ending_) return;
  {
    absl::MutexLock lock(&mutex_);
    happened_ = true;
  }
  action_();
  const timespec timeout = absl::ToTimespec(kTimeToEnd);
  sigtimedwait(&set, nullptr, &timeout);
  if (!ending_) std::_Exit(static_cast<int>(ExitCode::kInterrupted));
}

}  // namespace latentd::client
