// A device like an accelerator, in this process: memory that the rest of the program cannot touch,
// and streams that work later, on threads of their own. Code that computes on the host's kernels
// runs on it too (CpuOptions::device), so that it finds code that follows a device's address, or
// reads or reuses memory without waiting.
//
// Memory of Place::kDevice has two addresses: buffers carry one that may not be read or
// written (a fault ends the process), AddressOf gives the other. A stream begins its work only
// when a thread waits for an event behind it, or for the stream's end, as late as it may; or
// at once.
//
// It copies from and to memory of others that it has met, where it reaches that, and of no other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/device/host_device.h"

namespace latentd::testing {

// Outlives its buffers and streams. Thread-safe.
class SeparateDevice : public device::HostDevice {
 public:
  enum class Begins : uint8_t { kWhenWaitedFor, kAtOnce };

  // By kByHost it reaches memory of no other device.
  enum class Peers : uint8_t { kReached, kByHost };

  explicit SeparateDevice(Begins begins = Begins::kWhenWaitedFor, Peers peers = Peers::kReached)
      : begins_(begins), peers_(peers) {}
  explicit SeparateDevice(Peers peers) : SeparateDevice(Begins::kWhenWaitedFor, peers) {}

  absl::StatusOr<device::Buffer> Allocate(device::DType dtype, device::Shape shape,
                                          device::Place place) override;
  absl::StatusOr<std::unique_ptr<device::Stream>> NewStream(const Clock& clock) override;

  absl::Status Meet(const device::Device& other) override ABSL_LOCKS_EXCLUDED(mutex_);
  bool Reaches(const device::Device& other) const override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Copy(device::ConstBuffer from, device::Buffer to, device::Stream& stream) override;

  void* AddressOf(const device::Buffer& buffer) const override;
  const void* AddressOf(const device::ConstBuffer& buffer) const override;

  // Number of live allocations of Place::kDevice.
  size_t allocations() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Mapping;

  // Null: the memory is not the device's.
  char* Find(const void* data) const ABSL_LOCKS_EXCLUDED(mutex_);
  char* MustFind(const void* data) const;
  // Likewise, of the host, of this device or of those that it reaches.
  char* FindAnywhere(const device::ConstBuffer& buffer) const ABSL_LOCKS_EXCLUDED(mutex_);

  const Begins begins_;
  const Peers peers_;
  mutable absl::Mutex mutex_;
  // By the address that buffers carry.
  std::map<const char*, const Mapping*> mappings_ ABSL_GUARDED_BY(mutex_);
  std::vector<const SeparateDevice*> reached_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::testing
