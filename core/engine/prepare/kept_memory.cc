#include "core/engine/prepare/kept_memory.h"

#include <utility>

#include "absl/cleanup/cleanup.h"

namespace latentd::engine {

bool KeptMemory::IsDue() {
  const absl::Time now = clock_.Monotonic();
  absl::MutexLock lock(&mutex_);
  if (waits_ || now < next_) return false;
  next_ = now + kUnused;
  waits_ = true;
  return true;
}

void KeptMemory::GiveBackUnused() {
  if (!IsDue()) return;
  const auto done = [this] {
    absl::MutexLock lock(&mutex_);
    waits_ = false;
  };
  absl::Cleanup not_added = done;
  preparer_.Submit({.priority = Preparer::Priority::kSpare,
                    .tasks = {[this](Preparer::Order&) {
                      device_.GiveBack(device::Kept::kUnused);
                      return absl::OkStatus();
                    }},
                    .end = [done](const Preparer::Ended&) { done(); }});
  std::move(not_added).Cancel();
}

}  // namespace latentd::engine
