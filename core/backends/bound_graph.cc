#include "core/backends/bound_graph.h"

#include <utility>

#include "core/base/errors/status_macros.h"

namespace latentd::backends {
namespace {

device::Buffer Find(absl::string_view name, const std::vector<Port>& ports,
                    const std::vector<device::Buffer>& buffers) {
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name == name) return buffers[i];
  }
  return {};
}

absl::StatusOr<device::Buffer> MemoryFor(const Port& port, device::Device& device,
                                         const NamedBuffers& given) {
  const auto found = given.find(port.name);
  if (found != given.end()) return found->second;
  return device.Allocate(port.dtype, port.shape, device::Place::kDevice);
}

}  // namespace

absl::StatusOr<BoundGraph> BoundGraph::Create(std::shared_ptr<Executable> executable,
                                              const NamedBuffers& given) {
  BoundGraph graph;
  for (const Port& port : executable->inputs()) {
    ASSIGN_OR_RETURN(graph.inputs_.emplace_back(), MemoryFor(port, executable->device(), given));
  }
  for (const Port& port : executable->outputs()) {
    if (port.updates >= 0) {
      graph.outputs_.push_back(graph.inputs_[port.updates]);
      continue;
    }
    ASSIGN_OR_RETURN(graph.outputs_.emplace_back(), MemoryFor(port, executable->device(), given));
  }
  const std::vector<device::ConstBuffer> inputs(graph.inputs_.begin(), graph.inputs_.end());
  ASSIGN_OR_RETURN(graph.session_, executable->Bind(inputs, graph.outputs_));
  graph.executable_ = std::move(executable);
  return graph;
}

device::Buffer BoundGraph::input(absl::string_view name) const {
  return Find(name, executable_->inputs(), inputs_);
}

device::Buffer BoundGraph::output(absl::string_view name) const {
  return Find(name, executable_->outputs(), outputs_);
}

}  // namespace latentd::backends
