#include "core/pipeline/lanes/helper_row.h"

#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/pipeline/graphs/step_graph.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::Shape;

// x of a row's state [1, 4, N].
Buffer XOf(const Buffer& state) {
  return state.Reshaped({state.shape()[1], state.shape()[2]}).Rows(0, 1);
}

// True of values that an evaluation changes.
bool IsOfEachStep(const RowPort& port) {
  return port.role == PortRole::kState || port.role == PortRole::kStep;
}

absl::StatusOr<Buffer> MemoryOf(const RowPort& port, absl::Span<const LanePort> lane) {
  const auto found =
      absl::c_find_if(lane, [&](const LanePort& other) { return other.name == port.name; });
  if (found == lane.end()) return absl::InternalError(absl::StrCat("a lane has no ", port.name));
  return found->memory;
}

}  // namespace

int64_t HelperRow::Bytes(const backends::Executable& network) {
  int64_t bytes = 0;
  for (const auto* ports : {&network.inputs(), &network.outputs()}) {
    for (const backends::Port& port : *ports) {
      bytes += port.shape.elements() * device::SizeOf(port.dtype);
    }
  }
  return bytes;
}

absl::StatusOr<std::shared_ptr<HelperRow>> HelperRow::Create(
    ExecutablePointer network, const device::Device& lane,
    std::shared_ptr<std::atomic<int64_t>> held) {
  ASSIGN_OR_RETURN(backends::BoundGraph graph, backends::BoundGraph::Create(network));
  const bool reaches = network->device().Reaches(lane);
  Buffer prediction;
  if (!reaches) {
    const Buffer there = graph.output(kPredictionPort);
    ASSIGN_OR_RETURN(prediction, network->device().Allocate(there.dtype(), there.shape(),
                                                            device::Place::kPinned));
  }
  return std::shared_ptr<HelperRow>(
      new HelperRow(std::move(network), std::move(graph), std::move(prediction), std::move(held)));
}

HelperRow::HelperRow(ExecutablePointer network, backends::BoundGraph graph, Buffer prediction,
                     std::shared_ptr<std::atomic<int64_t>> held)
    : network_(std::move(network)),
      graph_(std::move(graph)),
      ports_(StepPortsOf(network_->info())),
      prediction_(std::move(prediction)),
      held_(std::move(held)) {
  *held_ += Bytes(*network_);
}

HelperRow::~HelperRow() { *held_ -= Bytes(*network_); }

bool HelperRow::Has(const RowPort& port, int of_picture) const {
  return filled_of_ == of_picture && !IsOfEachStep(port);
}

// Memory for what is copied once is kept by its copies, as long as they need it.
absl::StatusOr<Buffer> HelperRow::OnHost(const RowPort& port, const Buffer& like) {
  const auto kept = on_host_.find(port.name);
  if (kept != on_host_.end()) return kept->second;
  ASSIGN_OR_RETURN(Buffer memory,
                   graph_.device().Allocate(like.dtype(), like.shape(), device::Place::kPinned));
  if (IsOfEachStep(port)) on_host_[port.name] = memory;
  return memory;
}

absl::Status HelperRow::Send(const Row& row, device::Device& lane, device::Stream& stream) {
  sent_.clear();
  for (const RowPort& port : ports_) {
    Buffer to = graph_.input(port.name);
    if (!to.has_memory() || Has(port, row.of_picture)) continue;
    ASSIGN_OR_RETURN(const Buffer all, MemoryOf(port, row.ports));
    Buffer from = all.Rows(row.of_lane, row.of_lane + 1);
    if (port.role == PortRole::kState) {
      from = XOf(from);
      to = XOf(to);
    }
    if (!reaches()) {
      ASSIGN_OR_RETURN(Buffer on_host, OnHost(port, from));
      RETURN_IF_ERROR(lane.Copy(from, on_host, stream));
      from = std::move(on_host);
    }
    sent_.push_back({std::move(from), std::move(to)});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const device::Event>> HelperRow::Evaluate(
    const Row& row, std::shared_ptr<const device::Event> ready, device::Stream& stream) {
  filled_of_ = -1;
  // The lane's next step writes what was to be read.
  absl::Cleanup failed = [&stream] { stream.Synchronize().IgnoreError(); };
  RETURN_IF_ERROR(stream.WaitFor(std::move(ready)));
  RETURN_IF_ERROR(Enqueue(row, stream));
  ASSIGN_OR_RETURN(auto done, stream.Record());
  std::move(failed).Cancel();
  has_run_ = true;
  filled_of_ = row.of_picture;
  return done;
}

absl::Status HelperRow::Enqueue(const Row& row, device::Stream& stream) {
  device::Device& device = graph_.device();
  for (const Sent& value : sent_) RETURN_IF_ERROR(device.Copy(value.from, value.to, stream));
  sent_.clear();
  RETURN_IF_ERROR(graph_.Enqueue(stream));
  const Buffer& to = reaches() ? row.prediction : prediction_;
  return device.Copy(graph_.output(kPredictionPort), to, stream);
}

absl::Status HelperRow::Receive(const Row& row, device::Device& lane,
                                device::Stream& stream) const {
  return reaches() ? absl::OkStatus() : lane.Copy(prediction_, row.prediction, stream);
}

}  // namespace latentd::pipeline
