// A row of a picture's steps in memory of another device than that of its lane, with the network
// that evaluates it there. What does not change while the picture steps is copied once.
//
// Each copy between the two devices is one from memory to memory where the helper reaches the
// lane's; else two, by pinned memory of the host: to it by the device that has the values, from it
// by the other one.
//
// One thread at a time; may be destroyed by any, when what was enqueued is done.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
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
  // Bytes of the device's memory that Create takes.
  static int64_t Bytes(const backends::Executable& network);

  // `network` has one row, on a device that has met the lane's, as that has met it. `held` counts
  // the bytes of all that are alive. Errors as Device::Allocate's and Executable::Bind's.
  static absl::StatusOr<std::shared_ptr<HelperRow>> Create(
      ExecutablePointer network, const device::Device& lane,
      std::shared_ptr<std::atomic<int64_t>> held);
  ~HelperRow();

  const ExecutablePointer& network() const { return network_; }
  bool has_run() const { return has_run_; }

  // A row of a lane, and which of the picture's it is: 0 or 1.
  struct Row {
    absl::Span<const LanePort> ports;  // with all rows
    int of_lane = 0;
    int of_picture = 0;
    device::Buffer prediction;  // memory of the lane's device, for it
  };

  // An evaluation in three parts. First, what has to be done on the stream of the lane's device
  // before that has an event behind which the row is `ready`.
  absl::Status Send(const Row& row, device::Device& lane, device::Stream& stream);
  // Enqueues the evaluation itself, on a stream of the network's device. The event says when it is
  // done, and what came of it. After an error nothing of it is on the stream any more.
  absl::StatusOr<std::shared_ptr<const device::Event>> Evaluate(
      const Row& row, std::shared_ptr<const device::Event> ready, device::Stream& stream);
  // Behind that event on the lane's stream: the prediction is there from then on.
  absl::Status Receive(const Row& row, device::Device& lane, device::Stream& stream) const;

 private:
  struct Sent {
    device::Buffer from, to;
  };

  HelperRow(ExecutablePointer network, backends::BoundGraph graph, device::Buffer prediction,
            std::shared_ptr<std::atomic<int64_t>> held);
  bool reaches() const { return !prediction_.has_memory(); }
  // True of a value that the next evaluation of the picture's row finds as it was.
  bool Has(const RowPort& port, int of_picture) const;
  absl::StatusOr<device::Buffer> OnHost(const RowPort& port, const device::Buffer& like);
  absl::Status Enqueue(const Row& row, device::Stream& stream);

  const ExecutablePointer network_;
  backends::BoundGraph graph_;
  const std::vector<RowPort> ports_;  // ports of the network
  // Memory of the host, where the helper does not reach that of the lane: for predictions, and by
  // ports for values that each evaluation copies.
  const device::Buffer prediction_;
  absl::flat_hash_map<std::string, device::Buffer> on_host_;
  const std::shared_ptr<std::atomic<int64_t>> held_;
  std::vector<Sent> sent_;  // copies that Evaluate makes
  bool has_run_ = false;
  int filled_of_ = -1;  // the picture's row whose values are here; -1: none
};

}  // namespace latentd::pipeline
