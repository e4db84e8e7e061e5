// Enqueues a run of an executable with buffers by the names of its ports: for graphs that run once
// a picture.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/backends/bound_graph.h"
#include "core/pipeline/picture/finite.h"

namespace latentd::pipeline {

using backends::NamedBuffers;

// Work enqueued on a stream. It holds what that uses: not to be destroyed before it is done.
struct PendingWork {
  std::vector<std::shared_ptr<const void>> kept;
  // To look at then: flags, and what events on the way say of what was enqueued before them.
  std::vector<FiniteFlag> flags;
  std::vector<std::shared_ptr<const device::Event>> events;
};

// The outputs, once the stream has come so far, in memory of the executable's device but for those
// of `to_host`. `ports` has every input (INTERNAL otherwise), in memory of the device or of the
// host that its owner keeps alive, and may have outputs, which are written there.
absl::StatusOr<NamedBuffers> EnqueueGraph(const std::shared_ptr<backends::Executable>& executable,
                                          const NamedBuffers& ports,
                                          const std::vector<std::string>& to_host,
                                          device::Stream& stream, PendingWork& work);

}  // namespace latentd::pipeline
