#include "core/engine/result_bytes.h"

namespace latentd::engine {

std::shared_ptr<const void> ResultBytes::Count(size_t bytes) {
  const auto counted = static_cast<int64_t>(bytes);
  total_ += counted;
  // Should there be no memory for the token, its deleter runs at once.
  return {static_cast<const void*>(this),
          [counter = shared_from_this(), counted](const void*) { counter->Release(counted); }};
}

void ResultBytes::Disconnect() {
  absl::MutexLock lock(&mutex_);
  on_release_ = nullptr;
}

void ResultBytes::Release(int64_t bytes) {
  total_ -= bytes;
  absl::MutexLock lock(&mutex_);
  if (on_release_) on_release_();
}

}  // namespace latentd::engine
