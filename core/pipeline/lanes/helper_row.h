// A row of a picture's steps in memory of another device than that of its lane, with the network
// that evaluates it there. What does not change while the picture steps is copied once.
//
// One thread at a time; may be destroyed by any, when what was enqueued is done.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/backends/bound_graph.h"
#include "core/device/buffer.h"
#include "core/device/device.h"
#include "core/pipeline/graphs/model_graphs.h"
#include "core/pipeline/graphs/row_port.h"

namespace latentd::pipeline {

class HelperRow {
 public:
  // Bytes of memory that Create takes.
  static int64_t Bytes(const backends::Executable& network);

  // `network` has one row. `held` counts the bytes of all that are alive. Errors as
  // Device::Allocate's and Executable::Bind's.
  static absl::StatusOr<std::shared_ptr<HelperRow>> Create(
      ExecutablePointer network, std::shared_ptr<std::atomic<int64_t>> held);
  ~HelperRow();

  const ExecutablePointer& network() const { return network_; }
  bool has_run() const { return has_run_; }

  // A row of a lane, and which of the picture's it is: 0 or 1.
  struct Row {
    absl::Span<const LanePort> ports;  // with all rows
    int of_lane = 0;
    int of_picture = 0;
    std::shared_ptr<const device::Event> ready;  // on the lane's stream: all of it is written
    device::Buffer prediction;                   // memory of the lane's device, for it
  };

  // Enqueues the row's evaluation, from the lane's memory and back, once it is ready. The event
  // says when the prediction is there, and what came of it. After an error nothing of it is on the
  // stream any more. REQUIRES: a stream of the network's device, which has met the lane's.
  absl::StatusOr<std::shared_ptr<const device::Event>> Evaluate(const Row& row,
                                                                device::Stream& stream);

 private:
  HelperRow(ExecutablePointer network, backends::BoundGraph graph,
            std::shared_ptr<std::atomic<int64_t>> held);
  absl::Status Enqueue(const Row& row, device::Stream& stream);
  absl::Status CopyIn(const Row& row, device::Stream& stream);

  const ExecutablePointer network_;
  backends::BoundGraph graph_;
  const std::vector<RowPort> ports_;  // ports of the network
  const std::shared_ptr<std::atomic<int64_t>> held_;
  bool has_run_ = false;
  int filled_of_ = -1;  // the picture's row whose values are here; -1: none
};

}  // namespace latentd::pipeline
