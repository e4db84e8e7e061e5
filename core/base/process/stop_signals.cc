#include "core/base/process/stop_signals.h"

#include <pthread.h>
#include <unistd.h>

#include <initializer_list>

namespace latentd {
namespace {

bool IsIgnored(int number) {
  struct sigaction action = {};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

sigset_t StopSignalSet() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    if (number != SIGHUP || !IsIgnored(number)) sigaddset(&set, number);
  }
  return set;
}

void EndAtStopSignals() {
  const sigset_t set = StopSignalSet();
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    if (sigismember(&set, number) == 0) continue;
    std::signal(number, [](int received) { _exit(128 + received); });
  }
}

void BlockStopSignals() {
  const sigset_t set = StopSignalSet();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace latentd
