#include "server/process/lifetime/signals.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/process/stop_signals.h"
#include "core/base/threads/threads.h"
#include "server/process/logs/log.h"

namespace latentd::server::process {
namespace {

std::string NameOf(int signal) { return absl::StrCat("SIG", sigabbrev_np(signal)); }

}  // namespace

void EndAtOnce(int exit_code, absl::string_view message, const std::string& cause) {
  CatchOutOfMemory([&] { Log(latent::v1::WARNING, message, {{"cause", cause}}); }).IgnoreError();
  EndAfterLastLine(exit_code);
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

void StopSignals::RequestStop(absl::string_view cause,
                              std::optional<absl::Duration> drain_timeout) {
  absl::MutexLock lock(&mutex_);
  if (std::exchange(stop_requested_, true)) return;
  drain_timeout_ = drain_timeout;
  cause_ = std::string(cause);
}

std::optional<absl::Duration> StopSignals::drain_timeout() {
  absl::MutexLock lock(&mutex_);
  return drain_timeout_;
}

std::string StopSignals::cause() {
  absl::MutexLock lock(&mutex_);
  return cause_;
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
    if (!first || !drain_first_) EndAtOnce(128 + signal, "ended at once", NameOf(signal));
    RequestStop(NameOf(signal));
  }
}

}  // namespace latentd::server::process
