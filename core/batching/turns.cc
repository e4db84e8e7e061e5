#include "core/batching/turns.h"

#include <algorithm>

namespace latentd::batching {
namespace {

// What a unit counts at least, so that lanes whose units nobody has measured take turns too.
constexpr absl::Duration kShortest = absl::Microseconds(1);

}  // namespace

absl::Duration Turns::StartOf(const Lane& lane) const {
  const auto found = accounts_.find(lane);
  return found == accounts_.end() ? now_ : std::max(found->second.until, now_);
}

std::optional<Lane> Turns::Next(absl::Span<const Lane> lanes) const {
  const auto next =
      std::min_element(lanes.begin(), lanes.end(),
                       [this](const Lane& a, const Lane& b) { return StartOf(a) < StartOf(b); });
  if (next == lanes.end()) return std::nullopt;
  return *next;
}

// What it costs is known when it has ended; the next unit may begin before.
void Turns::Begin(const Lane& lane, UnitKind kind) {
  now_ = StartOf(lane);
  if (accounts_.size() >= kMostLanes) accounts_.clear();
  Account& account = accounts_[lane];
  account.until = now_ + std::max(account.last[kind], kShortest);
}

void Turns::Measure(const Lane& lane, UnitKind kind, absl::Duration took) {
  const auto found = accounts_.find(lane);
  if (found == accounts_.end()) return;
  absl::Duration& last = found->second.last[kind];
  found->second.until += std::max(took, kShortest) - std::max(last, kShortest);
  last = took;
}

}  // namespace latentd::batching
