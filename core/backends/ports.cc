#include "core/backends/ports.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/device/host_device.h"

namespace latentd::backends {
namespace {

absl::Status CheckBuffer(absl::string_view what, const Port& port, const device::Device& device,
                         const device::ConstBuffer& buffer) {
  if (!buffer.has_memory() || buffer.dtype() != port.dtype || buffer.shape() != port.shape) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " \"", port.name, "\" is ", device::Name(port.dtype),
                     port.shape.ToString(), ", not ", device::Name(buffer.dtype()),
                     buffer.shape().ToString(), buffer.has_memory() ? "" : " without memory"));
  }
  if (buffer.place() != device::Place::kHost || &device == &device::Host()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " \"", port.name,
                                                 "\" lies in the host's memory, and the graph runs "
                                                 "on another device: copy it there"));
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

bool Overlap(const device::ConstBuffer& a, const device::ConstBuffer& b) {
  const auto begin_a = reinterpret_cast<uintptr_t>(a.data());
  const auto begin_b = reinterpret_cast<uintptr_t>(b.data());
  return begin_a < begin_b + b.bytes() && begin_b < begin_a + a.bytes();
}

// With any input but the one that it updates, and with any output behind it.
absl::Status CheckAlone(const ExecutableInfo& info, size_t output,
                        absl::Span<const device::ConstBuffer> inputs,
                        absl::Span<const device::Buffer> outputs) {
  const Port& port = info.outputs[output];
  const auto overlaps = [&](absl::string_view what, const Port& other) {
    return absl::InvalidArgumentError(
        absl::StrCat("output \"", port.name, "\" overlaps ", what, " \"", other.name, "\""));
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool updated = port.updates == static_cast<int>(i);
    if (!updated && Overlap(outputs[output], inputs[i])) return overlaps("input", info.inputs[i]);
  }
  for (size_t i = output + 1; i < outputs.size(); ++i) {
    if (Overlap(outputs[output], outputs[i])) return overlaps("output", info.outputs[i]);
  }
  return absl::OkStatus();
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

absl::Status CheckBuffers(const ExecutableInfo& info, const device::Device& device,
                          absl::Span<const device::ConstBuffer> inputs,
                          absl::Span<const device::Buffer> outputs) {
  RETURN_IF_ERROR(CheckCount("input", info.inputs.size(), inputs.size()));
  RETURN_IF_ERROR(CheckCount("output", info.outputs.size(), outputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    RETURN_IF_ERROR(CheckBuffer("input", info.inputs[i], device, inputs[i]));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    RETURN_IF_ERROR(CheckBuffer("output", info.outputs[i], device, outputs[i]));
    RETURN_IF_ERROR(CheckUpdate(info.outputs[i], inputs, outputs[i]));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    RETURN_IF_ERROR(CheckAlone(info, i, inputs, outputs));
  }
  return absl::OkStatus();
}

}  // namespace latentd::backends
