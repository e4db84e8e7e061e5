#include "core/backends/ports.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace latentd::backends {
namespace {

absl::Status CheckBuffer(absl::string_view what, const Port& port,
                         const device::ConstBuffer& buffer) {
  if (buffer.has_memory() && buffer.dtype() == port.dtype && buffer.shape() == port.shape) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(what, " \"", port.name, "\" is ", device::Name(port.dtype),
                   port.shape.ToString(), ", not ", device::Name(buffer.dtype()),
                   buffer.shape().ToString(), buffer.has_memory() ? "" : " without memory"));
}

absl::Status CheckCount(absl::string_view what, size_t wanted, size_t given) {
  if (given == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the graph has ", wanted, " ", what, "s, not ", given));
}

int IndexOf(absl::string_view name, const std::vector<Port>& ports) {
  const auto found =
      std::find_if(ports.begin(), ports.end(), [&](const Port& port) { return port.name == name; });
  return found == ports.end() ? -1 : static_cast<int>(found - ports.begin());
}

absl::Status CheckUpdate(const Port& port, absl::Span<const device::ConstBuffer> inputs,
                         const device::Buffer& output) {
  if (port.updates < 0 || inputs[port.updates].data() == output.data()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "output \"", port.name, "\" updates the input of that name and needs the same memory"));
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
  const std::vector<Port> inputs = InputPorts(graph);
  std::vector<Port> ports;
  for (const graph::Output& output : graph.outputs()) {
    const graph::Node& node = graph.node(output.value);
    ports.push_back({output.name, node.dtype, node.shape, IndexOf(output.name, inputs)});
  }
  return ports;
}

absl::Status CheckBuffers(const ExecutableInfo& info, absl::Span<const device::ConstBuffer> inputs,
                          absl::Span<const device::Buffer> outputs) {
  RETURN_IF_ERROR(CheckCount("input", info.inputs.size(), inputs.size()));
  RETURN_IF_ERROR(CheckCount("output", info.outputs.size(), outputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    RETURN_IF_ERROR(CheckBuffer("input", info.inputs[i], inputs[i]));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    RETURN_IF_ERROR(CheckBuffer("output", info.outputs[i], outputs[i]));
    RETURN_IF_ERROR(CheckUpdate(info.outputs[i], inputs, outputs[i]));
  }
  return absl::OkStatus();
}

}  // namespace latentd::backends
