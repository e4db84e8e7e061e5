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
  return port.role == PortRole::kState || port.role == PortRole::kStep ||
         port.role == PortRole::kResidual || port.role == PortRole::kDeep;
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
    ExecutablePointer network, std::shared_ptr<std::atomic<int64_t>> held) {
  ASSIGN_OR_RETURN(backends::BoundGraph graph, backends::BoundGraph::Create(network));
  return std::shared_ptr<HelperRow>(
      new HelperRow(std::move(network), std::move(graph), std::move(held)));
}

HelperRow::HelperRow(ExecutablePointer network, backends::BoundGraph graph,
                     std::shared_ptr<std::atomic<int64_t>> held)
    : network_(std::move(network)),
      graph_(std::move(graph)),
      ports_(StepPortsOf(network_->info())),
      held_(std::move(held)) {
  *held_ += Bytes(*network_);
}

HelperRow::~HelperRow() { *held_ -= Bytes(*network_); }

absl::StatusOr<std::shared_ptr<const device::Event>> HelperRow::Evaluate(const Row& row,
                                                                         device::Stream& stream) {
  // The lane's next step writes what was to be read.
  absl::Cleanup failed = [&] {
    filled_of_ = -1;
    stream.Synchronize().IgnoreError();
  };
  RETURN_IF_ERROR(Enqueue(row, stream));
  ASSIGN_OR_RETURN(auto done, stream.Record());
  std::move(failed).Cancel();
  has_run_ = true;
  filled_of_ = row.of_picture;
  return done;
}

absl::Status HelperRow::Enqueue(const Row& row, device::Stream& stream) {
  RETURN_IF_ERROR(stream.WaitFor(row.ready));
  RETURN_IF_ERROR(CopyIn(row, stream));
  RETURN_IF_ERROR(graph_.Enqueue(stream));
  return graph_.device().Copy(graph_.output(kPredictionPort), row.prediction, stream);
}

absl::Status HelperRow::CopyIn(const Row& row, device::Stream& stream) {
  for (const RowPort& port : ports_) {
    const Buffer to = graph_.input(port.name);
    if (!to.has_memory() || (filled_of_ == row.of_picture && !IsOfEachStep(port))) continue;
    const auto lane =
        absl::c_find_if(row.ports, [&](const LanePort& other) { return other.name == port.name; });
    if (lane == row.ports.end()) {
      return absl::InternalError(absl::StrCat("a lane has no ", port.name));
    }
    const Buffer from = lane->memory.Rows(row.of_lane, row.of_lane + 1);
    const bool is_state = port.role == PortRole::kState;
    RETURN_IF_ERROR(
        graph_.device().Copy(is_state ? XOf(from) : from, is_state ? XOf(to) : to, stream));
  }
  return absl::OkStatus();
}

}  // namespace latentd::pipeline
