// Stored tensors that a device keeps as they are in their files, for results that are made of them
// again and again: each set of LoRAs changes the same weights of a model, and a LoRA is in sets of
// other weights. So they are uploaded, and checked against their digests, once. Units are what is
// kept: a tensor, or the memory that it lies in with others (StoredTensor::part_of).
//
// Nothing is kept beyond a limit, which is 0 at first. What is kept serves no request, so it is
// dropped, least recently used first, before anything that does. One that does not fit drops no
// other that is still in use: sets read all tensors of a model in turn, and each would drop the one
// that is read next. One that was not read while room for twice the limit was asked for is of a
// model that left, and gives way.
//
// Bytes are those that a GPU's pool takes for a tensor (device::MemoryPool::RoundedUp).
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/base/text/digest.h"
#include "core/device/buffer.h"
#include "core/device/device.h"
#include "core/weights/stored_tensor.h"

namespace latentd::weights {

class KeptTensors {
 public:
  KeptTensors() = default;
  KeptTensors(const KeptTensors&) = delete;

  // Drops what is beyond it.
  void SetLimit(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // Drops tensors of so many bytes, or all, and keeps no more than what is left until a limit is
  // set: a load that goes on would bring them back. Returns the bytes that were dropped. Their
  // memory is free once nothing is made of them any more.
  size_t Drop(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // Keeps no more than now until a limit is set: there is no memory for more.
  void StopGrowing() ABSL_LOCKS_EXCLUDED(mutex_) { Drop(0); }

  size_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Memory of the device that holds the tensor; nullopt: its unit is not kept. A use of it.
  std::optional<device::ConstBuffer> Find(const StoredTensor& tensor) ABSL_LOCKS_EXCLUDED(mutex_);

  // False: the tensor's unit, which is not kept, is beyond the limit. Drops those that give way.
  bool MakeRoomFor(const StoredTensor& tensor) ABSL_LOCKS_EXCLUDED(mutex_);

  // Keeps `copy`, which has the unit's content and is on the device, where there is room.
  void Add(const StoredTensor& unit, device::ConstBuffer copy) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Kept {
    Digest content;
    device::ConstBuffer copy;
    size_t bytes = 0;
    size_t last_use = 0;  // wanting_ then
  };
  using List = std::list<Kept>;

  bool Fits(size_t bytes) const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return bytes <= limit_ && bytes_ <= limit_ - bytes;
  }
  // Moves the oldest one to `taken`, for the caller to free without the lock.
  void TakeOldest(List& taken) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  size_t limit_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t wanting_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes of all that room was asked for
  List list_ ABSL_GUARDED_BY(mutex_);           // the one used last first
  absl::flat_hash_map<Digest, List::iterator> places_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::weights
