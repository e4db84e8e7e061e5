#include "core/engine/loop/enqueue_lead.h"

#include <algorithm>

namespace latentd::engine {
namespace {

// For what is not foreseen: the thread wakes late, the device's clock is not the host's.
constexpr absl::Duration kMargin = absl::Milliseconds(1);
// A unit that needs less reduces the lead by the difference, divided by this.
constexpr int kForgottenPart = 32;

}  // namespace

absl::Time EnqueueLead::EnqueueAt(batching::UnitKind kind, absl::Time began,
                                  absl::Duration expected) const {
  return std::max(began, began + expected - needed_[static_cast<size_t>(kind)] - kMargin);
}

void EnqueueLead::Learn(batching::UnitKind kind, absl::Time predicted_end, absl::Time ended,
                        absl::Duration enqueuing) {
  absl::Duration& needed = needed_[static_cast<size_t>(kind)];
  const absl::Duration last = predicted_end - ended + enqueuing;
  needed = std::max({last, needed - (needed - last) / kForgottenPart, absl::ZeroDuration()});
}

}  // namespace latentd::engine
