#include "core/backends/ports.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace latentd::backends {
namespace {

absl::Status CheckBuffer(absl::string_view what, const Port& port, const device::Buffer& buffer) {
  if (buffer.has_memory() && buffer.dtype() == port.dtype && buffer.shape() == port.shape) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(what, " \"", port.name, "\" is ", device::Name(port.dtype),
                   port.shape.ToString(), ", not ", device::Name(buffer.dtype()),
                   buffer.shape().ToString(), buffer.has_memory() ? "" : " without memory"));
}

}  // namespace

std::vector<Port> InputPorts(const graph::Graph& graph) {
  std::vector<Port> ports;
  for (graph::ValueId id : graph.Select(graph::Op::kInput)) {
    const graph::Node& node = graph.node(id);
    ports.push_back({node.name, node.dtype, node.shape});
  }
  return ports;
}

std::vector<Port> OutputPorts(const graph::Graph& graph) {
  std::vector<Port> ports;
  for (const graph::Output& output : graph.outputs()) {
    const graph::Node& node = graph.node(output.value);
    ports.push_back({output.name, node.dtype, node.shape});
  }
  return ports;
}

absl::Status CheckBuffers(absl::string_view what, const std::vector<Port>& ports,
                          absl::Span<const device::Buffer> buffers) {
  if (buffers.size() != ports.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the graph has ", ports.size(), " ", what, "s, not ", buffers.size()));
  }
  for (size_t i = 0; i < ports.size(); ++i) {
    RETURN_IF_ERROR(CheckBuffer(what, ports[i], buffers[i]));
  }
  return absl::OkStatus();
}

}  // namespace latentd::backends
