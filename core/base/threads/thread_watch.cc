#include "core/base/threads/thread_watch.h"

namespace latentd {

void ThreadWatch::Begin(const char* activity) {
  begin_ = absl::ToUnixNanos(clock_.Monotonic());
  activity_ = activity;
}

// The time is read first: the asking thread may be held up, too.
std::optional<OverdueThread> ThreadWatch::Overdue() const {
  const absl::Time now = clock_.Monotonic();
  const char* const activity = activity_;
  if (activity == kIdle) return std::nullopt;
  const absl::Duration running = now - absl::FromUnixNanos(begin_);
  if (running < kLimit) return std::nullopt;
  return OverdueThread{name_, activity, running, kLimit};
}

std::vector<OverdueThread> ThreadWatches::Overdue() const {
  std::vector<OverdueThread> overdue;
  for (const ThreadWatch& watch : watches_) {
    if (const std::optional<OverdueThread> one = watch.Overdue()) overdue.push_back(*one);
  }
  return overdue;
}

}  // namespace latentd
