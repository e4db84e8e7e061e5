// The ports of an executable, as its graph declares them, and the check that every Bind begins
// with.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/backends/executable.h"
#include "core/device/device.h"
#include "core/graph/graph.h"

namespace latentd::backends {

// Inputs in the order of their nodes; an output with the name of an input updates it.
std::vector<Port> InputPorts(const graph::Graph& graph);
std::vector<Port> OutputPorts(const graph::Graph& graph);

// INVALID_ARGUMENT says how many buffers are wanted, which port's buffer has no memory, another
// dtype or another shape, or lies in memory of the host that the device does not work on; which
// output is not where the input is that it updates; or which other port an output overlaps.
absl::Status CheckBuffers(const ExecutableInfo& info, const device::Device& device,
                          absl::Span<const device::ConstBuffer> inputs,
                          absl::Span<const device::Buffer> outputs);

}  // namespace latentd::backends
