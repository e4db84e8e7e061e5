// The ports of an executable, as its graph declares them, and the check that every Run begins with.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/backends/executable.h"
#include "core/graph/graph.h"

namespace latentd::backends {

// Inputs in the order of their nodes.
std::vector<Port> InputPorts(const graph::Graph& graph);
std::vector<Port> OutputPorts(const graph::Graph& graph);

// INVALID_ARGUMENT says how many buffers are wanted, or which port's buffer has no memory, another
// dtype or another shape. `what` is "input" or "output".
absl::Status CheckBuffers(absl::string_view what, const std::vector<Port>& ports,
                          absl::Span<const device::Buffer> buffers);

}  // namespace latentd::backends
