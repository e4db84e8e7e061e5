#include "core/engine/loop/unit_watchdog.h"

#include <algorithm>
#include <utility>

#include "core/base/errors/out_of_memory.h"

namespace latentd::engine {

void UnitWatchdog::Begin(Unit unit) {
  absl::MutexLock lock(&mutex_);
  unit_ = std::move(unit);
  begin_ = clock_.Monotonic();
}

void UnitWatchdog::End() {
  absl::MutexLock lock(&mutex_);
  const absl::Duration took = clock_.Monotonic() - begin_;
  const bool was_overdue = took >= Limit();
  const Kind kind = KindOf(*unit_);
  unit_.reset();
  if (was_overdue) return;
  if (longest_.size() >= kMostKinds) longest_.clear();
  Note(kind, took, longest_);
}

std::optional<OverdueUnit> UnitWatchdog::Overdue() const {
  absl::MutexLock lock(&mutex_);
  if (!unit_) return std::nullopt;
  const absl::Duration running = clock_.Monotonic() - begin_;
  const absl::Duration limit = Limit();
  if (running < limit) return std::nullopt;
  return OverdueUnit{unit_->request_id,
                     unit_->image_index,
                     unit_->stage,
                     unit_->model,
                     unit_->size,
                     running,
                     limit};
}

// Without memory for it the kind stays new.
void UnitWatchdog::Note(const Kind& kind, absl::Duration took, Durations& longest) {
  CatchOutOfMemory([&] {
    absl::Duration& known = longest[kind];
    known = std::max(known, took);
  }).IgnoreError();
}

absl::Duration UnitWatchdog::Limit() const {
  const auto longest = longest_.find(KindOf(*unit_));
  if (longest == longest_.end()) return kFirstLimit;
  return std::max(kShortestLimit, kTimesAsLong * longest->second);
}

}  // namespace latentd::engine
