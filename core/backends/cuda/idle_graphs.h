// Captured graphs of sessions that are gone, by the memory that their ports had. Such memory comes
// from a pool, so that the next picture's lies where an earlier one's did; and to capture a text
// encoder takes the host longer than to run it takes the GPU.
//
// Internal to this directory. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace latentd::backends::cuda {

using PortAddresses = std::vector<char*>;

class IdleGraphs {
 public:
  IdleGraphs() { graphs_.reserve(kMost + 1); }
  ~IdleGraphs();
  IdleGraphs(const IdleGraphs&) = delete;

  // Null: there is none for these.
  cudaGraphExec_t Take(const PortAddresses& ports) ABSL_LOCKS_EXCLUDED(mutex_);

  // Owns the graph from now on, which must have run; the one that was given first makes way.
  void Give(PortAddresses ports, cudaGraphExec_t graph) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  static constexpr size_t kMost = 4;
  struct Idle {
    PortAddresses ports;
    cudaGraphExec_t graph;
  };

  absl::Mutex mutex_;
  std::vector<Idle> graphs_ ABSL_GUARDED_BY(mutex_);  // in the order in which they were given
};

}  // namespace latentd::backends::cuda
