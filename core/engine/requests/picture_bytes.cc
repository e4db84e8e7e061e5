#include "core/engine/requests/picture_bytes.h"

namespace latentd::engine {

std::shared_ptr<const void> PictureBytes::Count(Kind kind, size_t bytes) {
  const auto counted = static_cast<int64_t>(bytes);
  counts_[Index(kind)].bytes += counted;
  ++counts_[Index(kind)].tokens;
  // Should there be no memory for the token, its deleter runs at once.
  return {static_cast<const void*>(this), [counter = shared_from_this(), kind, counted](
                                              const void*) { counter->Release(kind, counted); }};
}

void PictureBytes::Disconnect() {
  absl::MutexLock lock(&mutex_);
  on_release_ = nullptr;
}

void PictureBytes::Release(Kind kind, int64_t bytes) {
  counts_[Index(kind)].bytes -= bytes;
  --counts_[Index(kind)].tokens;
  absl::MutexLock lock(&mutex_);
  if (on_release_) on_release_();
}

}  // namespace latentd::engine
