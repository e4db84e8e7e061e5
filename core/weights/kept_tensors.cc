#include "core/weights/kept_tensors.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/device/memory_pool.h"

namespace latentd::weights {

using device::ConstBuffer;
using device::MemoryPool;

void KeptTensors::SetLimit(size_t bytes) {
  List leaving;
  absl::MutexLock lock(&mutex_);
  limit_ = bytes;
  while (bytes_ > limit_) TakeOldest(leaving);
}

size_t KeptTensors::Drop(size_t bytes) {
  List leaving;
  absl::MutexLock lock(&mutex_);
  const size_t before = bytes_;
  while (before - bytes_ < bytes && !list_.empty()) TakeOldest(leaving);
  limit_ = std::min(limit_, bytes_);
  return before - bytes_;
}

void KeptTensors::TakeOldest(List& taken) {
  bytes_ -= list_.back().bytes;
  places_.erase(list_.back().content);
  taken.splice(taken.end(), list_, std::prev(list_.end()));
}

size_t KeptTensors::bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_;
}

std::optional<ConstBuffer> KeptTensors::Find(const StoredTensor& tensor) {
  if (bytes() == 0) return std::nullopt;
  const Digest& content = UnitOf(tensor).digest->Get();
  absl::MutexLock lock(&mutex_);
  const auto found = places_.find(content);
  if (found == places_.end()) return std::nullopt;
  list_.splice(list_.begin(), list_, found->second);
  found->second->last_use = wanting_;
  return InUnit(tensor, found->second->copy);
}

// Each tensor of a unit that does not fit asks, for its own part.
bool KeptTensors::MakeRoomFor(const StoredTensor& tensor) {
  const size_t bytes = MemoryPool::RoundedUp(UnitOf(tensor).data.bytes());
  List leaving;
  absl::MutexLock lock(&mutex_);
  if (bytes > limit_) return false;
  wanting_ += MemoryPool::RoundedUp(tensor.data.bytes());
  while (!Fits(bytes) && (wanting_ - list_.back().last_use) / 2 > limit_) TakeOldest(leaving);
  return Fits(bytes);
}

void KeptTensors::Add(const StoredTensor& unit, ConstBuffer copy) {
  const Digest& content = unit.digest->Get();
  const size_t bytes = MemoryPool::RoundedUp(copy.bytes());
  absl::MutexLock lock(&mutex_);
  if (!Fits(bytes) || places_.contains(content)) return;
  bytes_ += bytes;
  list_.push_front({content, std::move(copy), bytes, wanting_});
  places_.emplace(content, list_.begin());
}

}  // namespace latentd::weights
