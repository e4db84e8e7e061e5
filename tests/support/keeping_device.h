// A device that keeps what is freed for the next who wants as much, as a GPU does, in the host's
// memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/device/host_device.h"
#include "core/device/memory_pool.h"

namespace latentd::testing {

// Thread-safe.
class KeepingDevice : public device::HostDevice {
 public:
  static constexpr int64_t kTotal = int64_t{4} << 30, kFree = int64_t{1} << 30;

  absl::StatusOr<device::Buffer> Allocate(device::DType dtype, device::Shape shape,
                                          device::Place place) override {
    if (place != device::Place::kDevice) {
      return HostDevice::Allocate(dtype, std::move(shape), place);
    }
    const auto bytes = static_cast<size_t>(shape.elements() * device::SizeOf(dtype));
    absl::StatusOr<std::shared_ptr<void>> memory = pool_->Take(bytes);
    if (!memory.ok()) return memory.status();
    std::fill_n(static_cast<char*>(memory->get()), bytes, 0);
    void* data = memory->get();
    return device::Buffer::Wrap(data, dtype, std::move(shape), *std::move(memory), place);
  }
  // Weights are not kept.
  absl::StatusOr<device::Buffer> AllocatePacked(device::DType dtype, device::Shape shape) override {
    return HostDevice::Allocate(dtype, std::move(shape), device::Place::kDevice);
  }
  absl::StatusOr<AvailableMemory> Available() const override {
    return AvailableMemory{kFree, "a device that keeps memory"};
  }
  bool SharesHostMemory() const override { return false; }
  device::DeviceMemory Memory() const override {
    return {.total = kTotal,
            .free = kFree,
            .idle = static_cast<int64_t>(pool_->idle_bytes()),
            .pinned = 0};
  }
  void GiveBack(device::Kept what) override {
    pool_->GiveBack(what);
    absl::MutexLock lock(&mutex_);
    ++given_back_;
  }

  // How often its driver was asked for memory.
  int driver_calls() const { return driver_calls_; }

  // Until it has been told so often to give back.
  bool WaitUntilToldToGiveBack(int times) const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto told = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return given_back_ >= times; };
    return mutex_.AwaitWithTimeout(absl::Condition(&told), absl::Minutes(10));
  }

 private:
  absl::Status AllocateFromDriver(size_t bytes, void*& memory) {
    ++driver_calls_;
    memory = std::aligned_alloc(/*alignment=*/512, bytes);
    return absl::OkStatus();
  }

  std::atomic<int> driver_calls_ = 0;
  const std::shared_ptr<device::MemoryPool> pool_ =
      std::make_shared<device::MemoryPool>(device::MemoryDriver{
          [this](size_t bytes, void*& memory) { return AllocateFromDriver(bytes, memory); },
          [](void* memory) { std::free(memory); }});
  mutable absl::Mutex mutex_;
  int given_back_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace latentd::testing
