#include "server/signals.h"

#include <pthread.h>
#include <signal.h>

#include <cstdlib>

#include "core/base/threads.h"

namespace latentd::server {
namespace {

sigset_t StopSignalSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

void BlockStopSignals() {
  const sigset_t set = StopSignalSet();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void IgnoreWriteSignals() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

StopSignals::StopSignals() : thread_(StartThread("signals", [this] { Loop(); })) {}

StopSignals::~StopSignals() {
  ending_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

void StopSignals::RequestStop(std::optional<absl::Duration> drain_timeout) {
  absl::MutexLock lock(&mutex_);
  if (!stop_requested_) drain_timeout_ = drain_timeout;
  stop_requested_ = true;
}

std::optional<absl::Duration> StopSignals::drain_timeout() {
  absl::MutexLock lock(&mutex_);
  return drain_timeout_;
}

bool StopSignals::WaitForStop(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&stop_requested_), timeout);
}

void StopSignals::Loop() {
  const sigset_t set = StopSignalSet();
  for (bool first = true;; first = false) {
    int signal = 0;
    sigwait(&set, &signal);
    if (ending_) return;
    if (!first) std::_Exit(128 + signal);
    RequestStop();
  }
}

}  // namespace latentd::server
