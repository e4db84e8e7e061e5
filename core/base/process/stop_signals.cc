#include "core/base/process/stop_signals.h"

#include <pthread.h>
#include <unistd.h>

#include <initializer_list>

namespace latentd {

sigset_t StopSignalSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

void EndAtStopSignals() {
  for (const int number : {SIGTERM, SIGINT}) {
    std::signal(number, [](int received) { _exit(128 + received); });
  }
}

void BlockStopSignals() {
  const sigset_t set = StopSignalSet();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace latentd
