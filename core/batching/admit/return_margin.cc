#include "core/batching/admit/return_margin.h"

#include <algorithm>

namespace latentd::batching {

// The first that is refused, of many who were told with one factor, says what the last one would.
void ReturnMargin::LearnTooShort(const Delay& delay, absl::Duration late, absl::Duration alone) {
  constexpr double kAtLeast = 0.25;
  if (delay.ahead <= absl::ZeroDuration()) return;
  const double slower = delay.alone > absl::ZeroDuration()
                            ? std::max(0.0, absl::FDivDuration(alone, delay.alone) - 1)
                            : 0;
  const double short_by = absl::FDivDuration(late, delay.ahead) - slower;
  if (slower > 0 && short_by <= 0) return;
  const double longer = delay.factor + std::max(kAtLeast, short_by) * delay.told_part;
  factor_ = std::clamp(longer, factor_, kMost);
}

// Between two that come one after the other the device does what the one of them needs.
void ReturnMargin::LearnTooLong(const Delay& delay, absl::Duration idle) {
  constexpr double kNewestPart = 0.25;
  if (delay.alone <= absl::ZeroDuration()) return;
  const double shorter = std::max(kLeast, delay.factor - absl::FDivDuration(idle, delay.alone));
  if (shorter < factor_) factor_ += (shorter - factor_) * kNewestPart;
}

}  // namespace latentd::batching
