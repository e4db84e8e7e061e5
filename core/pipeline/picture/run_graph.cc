#include "core/pipeline/picture/run_graph.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::Place;

// Buffers that the executable reads and writes where they are.
NamedBuffers OnDevice(const NamedBuffers& ports) {
  NamedBuffers there;
  for (const auto& [name, buffer] : ports) {
    if (buffer.place() == Place::kDevice) there[name] = buffer;
  }
  return there;
}

absl::Status CopyInputs(const backends::Executable& executable, const NamedBuffers& ports,
                        const backends::BoundGraph& graph, device::Stream& stream) {
  for (const backends::Port& port : executable.inputs()) {
    const Buffer& given = ports.at(port.name);
    if (given.place() == Place::kDevice) continue;
    const Buffer input = graph.input(port.name);
    if (given.bytes() != input.bytes() || given.dtype() != input.dtype()) {
      return absl::InternalError(absl::StrCat("graph input ", port.name, " is ",
                                              port.shape.ToString(), ", not ",
                                              given.shape().ToString()));
    }
    RETURN_IF_ERROR(executable.device().Copy(given, input, stream));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NamedBuffers> EnqueueGraph(const std::shared_ptr<backends::Executable>& executable,
                                          const NamedBuffers& ports,
                                          const std::vector<std::string>& to_host,
                                          device::Stream& stream, PendingWork& work) {
  for (const backends::Port& port : executable->inputs()) {
    if (ports.contains(port.name)) continue;
    return absl::InternalError(absl::StrCat("graph input ", port.name, " is not given"));
  }
  device::Device& device = executable->device();
  ASSIGN_OR_RETURN(backends::BoundGraph bound,
                   backends::BoundGraph::Create(executable, OnDevice(ports)));
  const auto graph = std::make_shared<backends::BoundGraph>(std::move(bound));
  work.kept.push_back(graph);
  RETURN_IF_ERROR(CopyInputs(*executable, ports, *graph, stream));
  RETURN_IF_ERROR(graph->Enqueue(stream));
  NamedBuffers outputs;
  for (const backends::Port& port : executable->outputs()) {
    outputs[port.name] = graph->output(port.name);
  }
  for (const std::string& name : to_host) {
    Buffer& output = outputs.at(name);
    ASSIGN_OR_RETURN(Buffer read, device.Allocate(output.dtype(), output.shape(), Place::kPinned));
    RETURN_IF_ERROR(device.Copy(output, read, stream));
    output = std::move(read);
  }
  return outputs;
}

}  // namespace latentd::pipeline
