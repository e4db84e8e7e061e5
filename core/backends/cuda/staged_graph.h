// A StagedGraph is a captured graph of a program whose ports lie in memory of the executable's own.
// It serves sessions with ports anywhere: a run copies their inputs there, and the results to their
// outputs. For programs that each session runs once, as text encoders, decoders and a UNet's
// request part: to copy their ports takes the device less than to launch their kernels takes the
// host.
//
// Internal to this directory. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/backends/cuda/captured_graph.h"
#include "core/backends/executable.h"
#include "core/device/buffer.h"
#include "core/device/cuda/cuda_device.h"

namespace latentd::backends::cuda {

// Offsets of ports in bytes, one behind the other: inputs, then outputs.
struct StagedPorts {
  std::vector<size_t> offsets, sizes;
  size_t inputs = 0;
  size_t bytes = 0;  // 0: not staged, since they are large, or outputs that update inputs
};
StagedPorts PlacePorts(absl::Span<const Port> inputs, absl::Span<const Port> outputs);

class StagedGraph {
 public:
  // REQUIRES: ports that are staged.
  static absl::StatusOr<std::unique_ptr<StagedGraph>> Allocate(StagedPorts places,
                                                               device::cuda::CudaDevice& device);

  // Addresses of the ports for the graph's kernels, inputs first.
  std::vector<char*> ports() const;

  bool captured() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Unless it has one, which may be running.
  void Set(GraphPointer graph) ABSL_LOCKS_EXCLUDED(mutex_);

  // Enqueues a run for a session with those ports. Where it returns RESOURCE_EXHAUSTED the ports
  // are as they were. REQUIRES: a captured graph; runs follow each other on the device.
  absl::Status Run(absl::Span<char* const> ports, cudaStream_t stream) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  StagedGraph(StagedPorts places, device::Buffer memory)
      : places_(std::move(places)), memory_(std::move(memory)) {}

  const StagedPorts places_;
  const device::Buffer memory_;

  mutable absl::Mutex mutex_;
  GraphPointer graph_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::backends::cuda
