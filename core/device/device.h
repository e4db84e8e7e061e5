// A device: its memory, and the streams in which it works while the host goes on.
//
// The host enqueues work on a stream and follows it by events. Memory that enqueued work reads or
// writes belongs to that work until an event that was recorded after it is reached.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/process/memory_limit.h"
#include "core/device/buffer.h"

namespace latentd::device {

// A place in a stream: everything that was enqueued before it comes before it. Thread-safe.
class Event {
 public:
  virtual ~Event() = default;

  virtual bool Reached() const = 0;

  // Waits until it is reached: the first failure of what was enqueued between the event before and
  // this one. What came after a failure has run too, on whatever was there.
  virtual absl::Status Wait() const = 0;

  // When it was reached, by the stream's clock (monotonic). REQUIRES: Reached().
  virtual absl::Time time() const = 0;
};

// Work in the order in which it was enqueued: one user's, on one thread at a time. Streams of one
// device work beside each other, but what shares an arena runs in turns.
class Stream {
 public:
  // Waits for what was enqueued.
  virtual ~Stream() = default;

  virtual absl::StatusOr<std::shared_ptr<const Event>> Record() = 0;

  // Work that is enqueued from now on begins when the event is reached, of a stream of this device
  // or of one that it has met. The host does not wait, and a failure that the event tells of is
  // none of this stream.
  virtual absl::Status WaitFor(std::shared_ptr<const Event> event) = 0;

  // Waits for what was enqueued: the first failure of it since the last event. Asks for no memory
  // where nothing failed.
  virtual absl::Status Synchronize() = 0;
};

// In bytes, of a device with memory of its own.
struct DeviceMemory {
  int64_t total = 0, free = 0;  // as its driver says: other processes use of it too
  int64_t idle = 0;             // taken by this process and unused: for the next allocations
  int64_t pinned = 0;  // memory of the host, used or idle, that the device copies from and to
};

// The part of a device's freed but kept memory that GiveBack returns to the driver.
enum class Kept : uint8_t {
  kAll,
  kUnused  // unused since the last call
};

// Thread-safe.
class Device {
 public:
  virtual ~Device() = default;

  // Zero-filled memory for work on this device and, at the places of the host, for the host too.
  // RESOURCE_EXHAUSTED, with reason OUT_OF_MEMORY: there is none.
  virtual absl::StatusOr<Buffer> Allocate(DType dtype, Shape shape, Place place) = 0;
  // Memory at Place::kDevice, packed, with whatever is in it: for what stays for long, is much, as
  // weights are, and is written whole first. It is slow to come, and to go; REQUIRES when it goes
  // that nothing that was enqueued uses it.
  virtual absl::StatusOr<Buffer> AllocatePacked(DType dtype, Shape shape) = 0;

  // `clock` must outlive the stream and its events, and the device too.
  virtual absl::StatusOr<std::unique_ptr<Stream>> NewStream(const Clock& clock) = 0;

  // How much memory for work it has left, now, and what says so. A fault, where it works no more.
  virtual absl::StatusOr<AvailableMemory> Available() const = 0;
  // True if its memory is the host's: allocations of the host reduce what is left for work then.
  virtual bool SharesHostMemory() const = 0;
  // 0 where the device shares the host's memory, and what its driver does not answer.
  virtual DeviceMemory Memory() const = 0;

  // Gives that back to its driver. Slow: a driver may wait for all that the device is at.
  virtual void GiveBack(Kept what) = 0;

  // From now on its streams wait for events of `other`, and copy from and to its memory: from one
  // memory to the other where the two reach each other, else by that of the host. REQUIRES: a
  // device of the same kind, which outlives what is enqueued. Once for each, before any of that.
  virtual absl::Status Meet(const Device& other) = 0;

  // Enqueues a copy between memory of any two places, which keeps both alive. REQUIRES: a stream of
  // this device; memory of the host, of this device or of one that it has met; as many bytes.
  virtual absl::Status Copy(ConstBuffer from, Buffer to, Stream& stream) = 0;
};

}  // namespace latentd::device
