#include "core/engine/write_behind.h"

#include <utility>

namespace latentd::engine {

void WriteBehind::Add(size_t bytes, std::function<void()> write) {
  absl::MutexLock lock(&mutex_);
  const auto has_room = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return waiting_bytes_ == 0 || waiting_bytes_ + bytes <= most_bytes_;
  };
  mutex_.Await(absl::Condition(&has_room));
  waiting_bytes_ += bytes;
  thread_.Add([this, bytes, write = std::move(write)]() mutable {
    write();
    write = nullptr;  // with what it kept
    absl::MutexLock lock(&mutex_);
    waiting_bytes_ -= bytes;
  });
}

void WriteBehind::Flush() {
  thread_.Run([] {});
}

}  // namespace latentd::engine
