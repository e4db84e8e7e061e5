// The programs of a lane's step that another device helps with: one picture of two rows, of which
// this device evaluates one and the helper the other; then this one advances both. Which row of the
// picture is here, the one on its negative prompt or the one on its prompt, is all the same.
//
// The host waits for neither, nor does a device but for the other's prediction or state.
//
// One thread at a time, but for bytes().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/backends/bound_graph.h"
#include "core/device/buffer.h"
#include "core/device/device.h"
#include "core/pipeline/graphs/model_graphs.h"
#include "core/pipeline/graphs/row_port.h"
#include "core/pipeline/lanes/helper_row.h"

namespace latentd::pipeline {

// A picture's means to split its steps.
struct Split {
  ExecutablePointer network, advance;  // on the lane's device, of one row and of two
  std::shared_ptr<HelperRow> helper;
  device::Stream* stream = nullptr;  // a stream of the helper's device
  absl::Status* failed = nullptr;    // set to the failure of the helper's part, if it has one
};

class SplitPrograms {
 public:
  explicit SplitPrograms(device::Device& device) : device_(device) {}

  // Outcome of enqueueing a step.
  struct Result {
    // Events to be looked at: for what came before on the lane's stream, and for the helper's part.
    // No `helped`: that part is not there.
    std::shared_ptr<const device::Event> ready, helped;
    bool first_run = false;  // one of the graphs ran first: the next may take the host long
    // Failure before the lane would have been written: it is as before, and may make the step
    // without help.
    absl::Status not_split;
  };

  // Enqueues a step of the lane's first two rows, those of one picture, the first of which is its
  // row number `first` of two; `ports` are the lane's. Puts events into `result` as they are
  // recorded, and there also says why the step is not split. An error of its own is one of the
  // advance, behind which it is unknown what was written.
  absl::Status Enqueue(const Split& split, absl::Span<const LanePort> ports, int first,
                       device::Stream& stream, Result& result);

  int64_t bytes() const { return bytes_; }  // bytes that it holds

 private:
  struct Bound {
    backends::BoundGraph network, advance;
  };

  // Binds the executables that come first: all are of the same graphs and weights.
  absl::Status Bind(const Split& split, absl::Span<const LanePort> ports);
  // Enqueues both predictions, after which the stream waits for the helper's.
  absl::Status Predict(const Split& split, absl::Span<const LanePort> ports, int first,
                       device::Stream& stream, Result& result);

  device::Device& device_;
  device::Buffer predictions_;  // [2, N]
  std::optional<Bound> bound_;
  bool has_run_ = false;
  std::atomic<int64_t> bytes_ = 0;
};

}  // namespace latentd::pipeline
