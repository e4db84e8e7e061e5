// Stored tensors that a device keeps as they are in their files, for results that are made of them
// again and again: each set of LoRAs changes the same weights of a model. So they are uploaded, and
// checked against their digests, once.
//
// Nothing is kept beyond a limit, which is 0 at first. What is kept serves no request, so it is
// dropped, least recently used first, before anything that does. One that does not fit drops no
// other: sets read all tensors of a model in turn, and each would drop the one that is read next.
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

  // Drops tensors of so many bytes, or all; returns the bytes that were dropped. Their memory is
  // free once nothing is made of them any more.
  size_t Drop(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  size_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Memory of the device that holds the tensor; nullopt: it is not kept. A use of it.
  std::optional<device::ConstBuffer> Find(const StoredTensor& tensor) ABSL_LOCKS_EXCLUDED(mutex_);

  // False: the tensor is beyond the limit.
  bool HasRoomFor(const StoredTensor& tensor) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Keeps `copy`, which has the tensor's content and is on the device, where there is room.
  void Add(const StoredTensor& tensor, device::ConstBuffer copy) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Kept {
    Digest content;
    device::ConstBuffer copy;
  };
  using List = std::list<Kept>;

  bool Fits(size_t bytes) const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return bytes <= limit_ && bytes_ <= limit_ - bytes;
  }
  // Takes out the oldest ones of so many bytes, for the caller to free without the lock.
  List TakeOldest(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  size_t limit_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  List list_ ABSL_GUARDED_BY(mutex_);  // the one used last first
  absl::flat_hash_map<Digest, List::iterator> places_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::weights
