#include "server/process/lifetime/server_threads.h"

#include <algorithm>
#include <thread>

namespace latentd::server::process {

int ServerThreadsNeeded() {
  // For signals, exits, the log, operators, TLS, spans, scrapes and the start itself.
  constexpr int kOwn = 20;
  // For timers, names, and calls of reflection at three ports.
  constexpr int kOfGrpc = 12;
  const int cpus = static_cast<int>(std::thread::hardware_concurrency());
  const int pollers = std::clamp(cpus / 2, 2, 16), event_engine = std::clamp(cpus, 2, 16);
  return kOwn + kOfGrpc + pollers + event_engine;
}

}  // namespace latentd::server::process
