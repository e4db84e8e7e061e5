// The host as a device: its memory is the host's, and what is enqueued runs at once, on the thread
// that enqueues it.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "core/device/device.h"

namespace latentd::device {

// A stream of a device that computes on the host.
class HostStream : public Stream {
 public:
  // Enqueues work; the first failure of it is the stream's.
  virtual void Push(std::function<absl::Status()> work) = 0;
};

class HostDevice : public Device {
 public:
  absl::StatusOr<Buffer> Allocate(DType dtype, Shape shape, Place place) override;
  absl::StatusOr<Buffer> AllocatePacked(DType dtype, Shape shape) override {
    return Allocate(dtype, std::move(shape), Place::kDevice);
  }
  absl::StatusOr<std::unique_ptr<Stream>> NewStream(const Clock& clock) override;
  absl::StatusOr<AvailableMemory> Available() const override { return MeasureAvailableMemory(); }
  bool SharesHostMemory() const override { return true; }
  DeviceMemory Memory() const override { return {}; }
  void GiveBack(Kept) override {}                                         // the C++ library decides
  absl::Status Meet(const Device&) override { return absl::OkStatus(); }  // all have one memory
  absl::Status Copy(ConstBuffer from, Buffer to, Stream& stream) override;

  // The address at which work on this device finds a buffer's memory. Virtual for the tests'
  // device, whose memory the rest of the program must not touch.
  virtual void* AddressOf(const Buffer& buffer) const { return buffer.data(); }
  virtual const void* AddressOf(const ConstBuffer& buffer) const { return buffer.data(); }
  // The same memory, at that address, as memory of the host.
  ConstBuffer Readable(const ConstBuffer& buffer) const;
};

// The host itself. Lives for ever.
HostDevice& Host();

}  // namespace latentd::device
