#include "core/backends/cuda/staged_graph.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "core/backends/cuda/binders/binders.h"
#include "core/base/alignment.h"
#include "core/base/errors/status_macros.h"
#include "core/device/cuda/cuda_status.h"

namespace latentd::backends::cuda {
namespace {

using device::cuda::ToStatus;

// A prompt's inputs for every layer of a UNet have 24 MiB, which are copied within 20 us.
constexpr size_t kMostBytes = size_t{32} << 20;

void Append(const Port& port, StagedPorts& places) {
  const size_t bytes = port.shape.elements() * device::SizeOf(port.dtype);
  places.offsets.push_back(places.bytes);
  places.sizes.push_back(bytes);
  places.bytes += RoundUp<size_t>(bytes, kPlaceAlignment);
}

absl::Status Copy(const char* from, char* to, size_t bytes, cudaStream_t stream) {
  return ToStatus(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream),
                  "copying a port");
}

}  // namespace

StagedPorts PlacePorts(absl::Span<const Port> inputs, absl::Span<const Port> outputs) {
  StagedPorts places{.inputs = inputs.size()};
  for (const Port& port : inputs) Append(port, places);
  for (const Port& port : outputs) Append(port, places);
  const auto updates = [](const Port& output) { return output.updates >= 0; };
  if (places.bytes > kMostBytes || std::any_of(outputs.begin(), outputs.end(), updates)) return {};
  return places;
}

absl::StatusOr<std::unique_ptr<StagedGraph>> StagedGraph::Allocate(
    StagedPorts places, device::cuda::CudaDevice& device) {
  ASSIGN_OR_RETURN(device::Buffer memory,
                   device.Allocate(device::DType::kU8, {static_cast<int64_t>(places.bytes)},
                                   device::Place::kDevice));
  return absl::WrapUnique(new StagedGraph(std::move(places), std::move(memory)));
}

std::vector<char*> StagedGraph::ports() const {
  std::vector<char*> ports;
  char* const at = static_cast<char*>(memory_.data());
  for (size_t offset : places_.offsets) ports.push_back(at + offset);
  return ports;
}

bool StagedGraph::captured() const {
  absl::MutexLock lock(&mutex_);
  return graph_ != nullptr;
}

void StagedGraph::Set(GraphPointer graph) {
  absl::MutexLock lock(&mutex_);
  if (graph_ == nullptr) graph_ = std::move(graph);
}

absl::Status StagedGraph::Run(absl::Span<char* const> ports, cudaStream_t stream) const {
  absl::MutexLock lock(&mutex_);
  const std::vector<char*> staged = this->ports();
  for (size_t i = 0; i < places_.inputs; ++i) {
    RETURN_IF_ERROR(Copy(ports[i], staged[i], places_.sizes[i], stream));
  }
  RETURN_IF_ERROR(ToStatus(cudaGraphLaunch(graph_.get(), stream), "launching a graph"));
  for (size_t i = places_.inputs; i < ports.size(); ++i) {
    const absl::Status copied = Copy(staged[i], ports[i], places_.sizes[i], stream);
    // The graph runs: a session without memory for the rest must not begin again.
    if (absl::IsResourceExhausted(copied)) return absl::InternalError(copied.message());
    RETURN_IF_ERROR(copied);
  }
  return absl::OkStatus();
}

}  // namespace latentd::backends::cuda
