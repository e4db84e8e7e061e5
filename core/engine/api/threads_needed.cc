#include "core/engine/api/threads_needed.h"

#include <algorithm>
#include <thread>

#include "core/base/threads/threads.h"

namespace latentd::engine {

int ComputingThreads(const Config& config) {
  const int cpus = UsableCpus();
  return config.threads > 0 ? std::min(config.threads, cpus) : cpus;
}

int ThreadsNeeded(const Config& config) {
  // The loop, what it hands to others (ends, previews, preparing), and what looks after files and
  // the cache: with the encoders beside them.
  constexpr int kOwn = 8, kEncoders = 8, kOfDriver = 8;
  const int devices = std::max(static_cast<int>(config.devices.size()), 1);
  if (config.backend == "cuda") return devices * (kOwn + kEncoders + kOfDriver);
  // The loop, who prepares and who loads each have others to compute with; ATen begins with all.
  constexpr int kThatCompute = 3;
  const int cpus = static_cast<int>(std::thread::hardware_concurrency());
  return kOwn + 1 + kThatCompute * (std::max(ComputingThreads(config), cpus) - 1);
}

}  // namespace latentd::engine
