#include "core/device/host_device.h"

#include <cassert>
#include <cstring>
#include <memory>
#include <utility>

#include "core/base/errors/out_of_memory.h"

namespace latentd::device {
namespace {

class ReachedEvent : public Event {
 public:
  ReachedEvent(absl::Status status, absl::Time time) : status_(std::move(status)), time_(time) {}

  bool Reached() const override { return true; }
  absl::Status Wait() const override { return status_; }
  absl::Time time() const override { return time_; }

 private:
  const absl::Status status_;
  const absl::Time time_;
};

class ImmediateStream : public HostStream {
 public:
  explicit ImmediateStream(const Clock& clock) : clock_(clock) {}

  void Push(std::function<absl::Status()> work) override { status_.Update(work()); }

  absl::StatusOr<std::shared_ptr<const Event>> Record() override {
    return std::make_shared<const ReachedEvent>(std::exchange(status_, absl::OkStatus()),
                                                clock_.Monotonic());
  }

  absl::Status WaitFor(std::shared_ptr<const Event> event) override {
    event->Wait().IgnoreError();  // its owner sees the error
    return absl::OkStatus();
  }

  absl::Status Synchronize() override { return std::exchange(status_, absl::OkStatus()); }

 private:
  const Clock& clock_;
  absl::Status status_;  // the first failure since the last event
};

}  // namespace

// The seam to the memory of the host, as a driver is to that of a GPU: callers do with less.
absl::StatusOr<Buffer> HostDevice::Allocate(DType dtype, Shape shape, Place place) {
  return CatchOutOfMemory([&]() -> absl::StatusOr<Buffer> {
    const Buffer memory = Buffer::Allocate(dtype, std::move(shape));
    return Buffer::Wrap(memory.data(), dtype, memory.shape(), std::make_shared<Buffer>(memory),
                        place);
  });
}

absl::StatusOr<std::unique_ptr<Stream>> HostDevice::NewStream(const Clock& clock) {
  return std::make_unique<ImmediateStream>(clock);
}

absl::Status HostDevice::Copy(ConstBuffer from, Buffer to, Stream& stream) {
  assert(from.bytes() == to.bytes());
  static_cast<HostStream&>(stream).Push([this, from = std::move(from), to = std::move(to)] {
    std::memcpy(AddressOf(to), AddressOf(from), to.bytes());
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

ConstBuffer HostDevice::Readable(const ConstBuffer& buffer) const {
  return ConstBuffer::Wrap(AddressOf(buffer), buffer.dtype(), buffer.shape(),
                           std::make_shared<const ConstBuffer>(buffer));
}

HostDevice& Host() {
  static HostDevice& host = *new HostDevice();
  return host;
}

}  // namespace latentd::device
