#include "core/weights/kept_tensors.h"

#include <iterator>
#include <memory>
#include <utility>

namespace latentd::weights {

using device::ConstBuffer;

void KeptTensors::SetLimit(size_t bytes) {
  List leaving;
  absl::MutexLock lock(&mutex_);
  limit_ = bytes;
  if (bytes_ > limit_) leaving = TakeOldest(bytes_ - limit_);
}

size_t KeptTensors::Drop(size_t bytes) {
  List leaving;
  absl::MutexLock lock(&mutex_);
  const size_t before = bytes_;
  leaving = TakeOldest(bytes);
  return before - bytes_;
}

KeptTensors::List KeptTensors::TakeOldest(size_t bytes) {
  List taken;
  for (size_t freed = 0; freed < bytes && !list_.empty();) {
    const size_t its = list_.back().copy.bytes();
    freed += its;
    bytes_ -= its;
    places_.erase(list_.back().content);
    taken.splice(taken.end(), list_, std::prev(list_.end()));
  }
  return taken;
}

size_t KeptTensors::bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_;
}

std::optional<ConstBuffer> KeptTensors::Find(const StoredTensor& tensor) {
  if (bytes() == 0) return std::nullopt;
  const Digest& content = tensor.digest->Get();
  absl::MutexLock lock(&mutex_);
  const auto found = places_.find(content);
  if (found == places_.end()) return std::nullopt;
  list_.splice(list_.begin(), list_, found->second);
  const ConstBuffer& copy = found->second->copy;
  // Equal bytes of another type are the same memory.
  return ConstBuffer::Wrap(copy.data(), tensor.data.dtype(), tensor.data.shape(),
                           std::make_shared<const ConstBuffer>(copy), copy.place());
}

bool KeptTensors::HasRoomFor(const StoredTensor& tensor) const {
  absl::MutexLock lock(&mutex_);
  return Fits(tensor.data.bytes());
}

void KeptTensors::Add(const StoredTensor& tensor, ConstBuffer copy) {
  const Digest& content = tensor.digest->Get();
  absl::MutexLock lock(&mutex_);
  if (!Fits(copy.bytes()) || places_.contains(content)) return;
  bytes_ += copy.bytes();
  list_.push_front({content, std::move(copy)});
  places_.emplace(content, list_.begin());
}

}  // namespace latentd::weights
