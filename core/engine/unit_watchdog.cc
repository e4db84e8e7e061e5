#include "core/engine/unit_watchdog.h"

#include <algorithm>
#include <utility>

namespace latentd::engine {

void UnitWatchdog::Begin(Unit unit) {
  absl::MutexLock lock(&mutex_);
  unit_ = std::move(unit);
  begin_ = clock_.Monotonic();
}

void UnitWatchdog::End() {
  absl::MutexLock lock(&mutex_);
  const absl::Duration took = clock_.Monotonic() - begin_;
  if (took < Limit()) {
    if (longest_.size() >= kMostKinds) longest_.clear();
    absl::Duration& longest = longest_[KindOf(*unit_)];
    longest = std::max(longest, took);
  }
  unit_.reset();
}

std::optional<OverdueUnit> UnitWatchdog::Overdue() const {
  absl::MutexLock lock(&mutex_);
  if (!unit_) return std::nullopt;
  const absl::Duration running = clock_.Monotonic() - begin_;
  const absl::Duration limit = Limit();
  if (running < limit) return std::nullopt;
  return OverdueUnit{
      unit_->request_id, unit_->image_index, unit_->stage, unit_->size, running, limit};
}

absl::Duration UnitWatchdog::Limit() const {
  const auto longest = longest_.find(KindOf(*unit_));
  if (longest == longest_.end()) return kFirstLimit;
  return std::max(kShortestLimit, kTimesAsLong * longest->second);
}

}  // namespace latentd::engine
