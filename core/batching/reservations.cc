#include "core/batching/reservations.h"

#include <algorithm>

namespace latentd::batching {
namespace {

// Clients come when their timer fires, many add a part of the delay so as not to come all at once,
// and what they send takes its time.
constexpr absl::Duration kEarly = absl::Milliseconds(50);
absl::Duration LatenessOf(absl::Duration delay) { return delay * 0.3 + absl::Seconds(1); }

double SecondsOf(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

}  // namespace

void Reservations::Add(const Who& who, absl::Time now, absl::Duration delay, const Room& room) {
  DropLate(SecondsOf(now));
  windows_.erase(who);
  if (windows_.size() >= kMost) return;
  const absl::Time from = now + delay;
  const Window window{.from = SecondsOf(from - kEarly),
                      .until = SecondsOf(from + LatenessOf(delay)),
                      .time = absl::ToDoubleSeconds(room.time),
                      .pictures = room.pictures};
  windows_[who] = window;
  first_until_ = std::min(first_until_, window.until);
}

bool Reservations::Take(const Who& who, absl::Time now) {
  DropLate(SecondsOf(now));
  const auto mine = windows_.find(who);
  if (mine == windows_.end() || mine->second.from > SecondsOf(now)) return false;
  windows_.erase(mine);
  Learn(true);
  return true;
}

template <typename Counts>
Reservations::Room Reservations::Sum(absl::Time now, absl::Time until, const Counts& counts) {
  const double start = SecondsOf(now), end = SecondsOf(until);
  DropLate(start);
  double time = 0, pictures = 0;
  for (const auto& [who, window] : windows_) {
    if (window.from > end || !counts(who)) continue;
    const double opens = std::max(start, window.from);
    const double part = share_that_comes_ / (window.until - window.from);
    pictures += window.pictures * (window.until - opens) * part;
    time += window.time * (std::min(end, window.until) - opens) * part;
  }
  return {absl::Seconds(time), pictures};
}

Reservations::Room Reservations::Expected(absl::Time now, absl::Time until, const Who& who) {
  return Sum(now, until, [&](const Who& other) { return other != who; });
}

Reservations::Room Reservations::ExpectedOfCaller(absl::Time now, absl::Time until,
                                                  const Who& who) {
  return Sum(now, until, [&](const Who& other) {
    return other.caller == who.caller && other.content != who.content;
  });
}

void Reservations::DropLate(double now) {
  if (first_until_ >= now) return;
  first_until_ = kNever;
  absl::erase_if(windows_, [&](const auto& entry) {
    const bool is_late = entry.second.until < now;
    if (is_late) Learn(false);
    if (!is_late) first_until_ = std::min(first_until_, entry.second.until);
    return is_late;
  });
}

void Reservations::Learn(bool came) {
  constexpr double kNewestPart = 1.0 / 16;
  share_that_comes_ += ((came ? 1 : 0) - share_that_comes_) * kNewestPart;
}

}  // namespace latentd::batching
