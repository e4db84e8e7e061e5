#include "core/pipeline/lanes/split_programs.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "core/base/errors/status_macros.h"
#include "core/pipeline/graphs/step_graph.h"

namespace latentd::pipeline {
namespace {

using backends::BoundGraph;
using backends::NamedBuffers;
using device::Buffer;

NamedBuffers FirstRows(absl::Span<const LanePort> ports, int rows) {
  NamedBuffers first;
  for (const LanePort& port : ports) first[port.name] = port.memory.Rows(0, rows);
  return first;
}

// Waits for the helper's part, of which nothing comes: it reads what the step without it writes.
void DropHelped(SplitPrograms::Result& result) {
  result.helped->Wait().IgnoreError();
  result.helped = nullptr;
}

}  // namespace

absl::Status SplitPrograms::Bind(const Split& split, absl::Span<const LanePort> ports) {
  if (bound_) return absl::OkStatus();
  if (!predictions_.has_memory()) {
    const auto port = absl::c_find_if(split.advance->inputs(), [](const backends::Port& input) {
      return input.name == kPredictionPort;
    });
    ASSIGN_OR_RETURN(predictions_,
                     device_.Allocate(port->dtype, port->shape, device::Place::kDevice));
    bytes_ = static_cast<int64_t>(predictions_.bytes());
  }
  NamedBuffers one = FirstRows(ports, 1), both = FirstRows(ports, 2);
  one[kPredictionPort] = predictions_.Rows(0, 1);
  both[kPredictionPort] = predictions_;
  ASSIGN_OR_RETURN(BoundGraph network, BoundGraph::Create(split.network, one));
  ASSIGN_OR_RETURN(BoundGraph advance, BoundGraph::Create(split.advance, both));
  bound_.emplace(Bound{std::move(network), std::move(advance)});
  return absl::OkStatus();
}

absl::Status SplitPrograms::Predict(const Split& split, absl::Span<const LanePort> ports, int first,
                                    device::Stream& stream, Result& result) {
  RETURN_IF_ERROR(Bind(split, ports));
  result.first_run = !std::exchange(has_run_, true) || !split.helper->has_run();
  ASSIGN_OR_RETURN(result.ready, stream.Record());
  RETURN_IF_ERROR(bound_->network.Enqueue(stream));
  auto helped = split.helper->Evaluate({.ports = ports,
                                        .of_lane = 1,
                                        .of_picture = 1 - first,
                                        .ready = result.ready,
                                        .prediction = predictions_.Rows(1, 2)},
                                       *split.stream);
  if (split.failed != nullptr) *split.failed = helped.status();
  ASSIGN_OR_RETURN(result.helped, std::move(helped));
  absl::Cleanup failed = [&result] { DropHelped(result); };
  RETURN_IF_ERROR(stream.WaitFor(result.helped));
  std::move(failed).Cancel();
  return absl::OkStatus();
}

// An advance that there was no memory for is not on the stream.
absl::Status SplitPrograms::Enqueue(const Split& split, absl::Span<const LanePort> ports, int first,
                                    device::Stream& stream, Result& result) {
  result.not_split = Predict(split, ports, first, stream, result);
  if (!result.not_split.ok()) return absl::OkStatus();
  const absl::Status advanced = bound_->advance.Enqueue(stream);
  if (!absl::IsResourceExhausted(advanced)) return advanced;
  result.not_split = advanced;
  DropHelped(result);
  return absl::OkStatus();
}

}  // namespace latentd::pipeline
