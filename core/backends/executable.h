// An Executable is an artifact bound to one weight set on one device; a Session is an executable
// bound to memory of its caller, ready to be enqueued as often as one likes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/device/buffer.h"
#include "core/device/device.h"

namespace latentd::backends {

// An input or output, in the graph's order.
struct Port {
  std::string name;
  device::DType dtype = device::DType::kF32;
  device::Shape shape;
  int updates = -1;  // the input that this output of the same name is written over; -1: none
};

struct ExecutableInfo {
  std::vector<Port> inputs, outputs;
  size_t arena_bytes = 0;  // part of the device's arena that one run uses
  size_t own_bytes = 0;    // held beside arena and weights
  // Addresses of the results that it holds in the weight store, which others may hold too.
  std::vector<const void*> weights;
};

// One thread at a time. Its executable must outlive it.
class Session {
 public:
  virtual ~Session() = default;

  // Enqueues one run: reads the inputs and writes the outputs. The stream's next event has the
  // result: RESOURCE_EXHAUSTED: no memory; every other failure is one of the machine, not of the
  // plan. If Enqueue itself returns RESOURCE_EXHAUSTED, nothing is on the stream, and the run may
  // be enqueued again; after an event's failure it is unknown which outputs were written. The
  // session must live until that event. REQUIRES: a stream of the executable's device.
  virtual absl::Status Enqueue(device::Stream& stream) = 0;
};

// Thread-safe. Runs of executables that share an arena take turns.
class Executable {
 public:
  virtual ~Executable() = default;

  virtual const ExecutableInfo& info() const = 0;
  virtual device::Device& device() const = 0;

  // To memory of the device (kHost only where that is the host), in the order of the ports, of
  // their dtypes and shapes; an output lies where the input lies that it updates, and overlaps no
  // other port. INVALID_ARGUMENT says which does not fit. The memory must outlive the session.
  virtual absl::StatusOr<std::unique_ptr<Session>> Bind(
      absl::Span<const device::ConstBuffer> inputs, absl::Span<const device::Buffer> outputs) = 0;

  const std::vector<Port>& inputs() const { return info().inputs; }
  const std::vector<Port>& outputs() const { return info().outputs; }
};

}  // namespace latentd::backends
