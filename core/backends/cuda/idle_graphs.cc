#include "core/backends/cuda/idle_graphs.h"

#include <algorithm>
#include <utility>

namespace latentd::backends::cuda {

IdleGraphs::~IdleGraphs() {
  for (const Idle& idle : graphs_) cudaGraphExecDestroy(idle.graph);
}

cudaGraphExec_t IdleGraphs::Take(const PortAddresses& ports) {
  absl::MutexLock lock(&mutex_);
  for (auto idle = graphs_.begin(); idle != graphs_.end(); ++idle) {
    if (idle->ports != ports) continue;
    const cudaGraphExec_t graph = idle->graph;
    graphs_.erase(idle);
    return graph;
  }
  return nullptr;
}

void IdleGraphs::Give(PortAddresses ports, cudaGraphExec_t graph) {
  cudaGraphExec_t gone = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    graphs_.push_back({std::move(ports), graph});
    if (graphs_.size() > kMost) {
      gone = graphs_.front().graph;
      graphs_.erase(graphs_.begin());
    }
  }
  if (gone != nullptr) cudaGraphExecDestroy(gone);
}

}  // namespace latentd::backends::cuda
