#include "core/batching/reservations.h"

#include <algorithm>

namespace latentd::batching {
namespace {

// Clients come when their timer fires, many add a part of the delay so as not to come all at once,
// and what they send takes its time.
constexpr absl::Duration kEarly = absl::Milliseconds(50);
absl::Duration LatenessOf(absl::Duration delay) { return delay * 0.3 + absl::Seconds(1); }

}  // namespace

void Reservations::Add(const Who& who, absl::Time now, absl::Duration delay, const Room& room) {
  DropLate(now);
  reservations_.remove_if([&](const Reservation& other) { return other.who == who; });
  if (reservations_.size() >= kMost) return;
  const absl::Time from = now + delay;
  reservations_.push_back({who, from - kEarly, from + LatenessOf(delay), room});
}

bool Reservations::Take(const Who& who, absl::Time now) {
  DropLate(now);
  const auto mine =
      std::find_if(reservations_.begin(), reservations_.end(),
                   [&](const Reservation& other) { return other.who == who && other.from <= now; });
  if (mine == reservations_.end()) return false;
  reservations_.erase(mine);
  Learn(true);
  return true;
}

template <typename Counts>
Reservations::Room Reservations::Sum(absl::Time now, absl::Time until, const Counts& counts) {
  DropLate(now);
  Room room;
  for (const Reservation& other : reservations_) {
    if (other.from > until || !counts(other.who)) continue;
    const absl::Time opens = std::max(now, other.from);
    const absl::Duration window = other.until - other.from;
    const double left = absl::FDivDuration(other.until - opens, window);
    const double before = absl::FDivDuration(std::min(until, other.until) - opens, window);
    room.time += other.room.time * before;
    room.pictures += other.room.pictures * left;
  }
  return {room.time * share_that_comes_, room.pictures * share_that_comes_};
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

void Reservations::DropLate(absl::Time now) {
  const size_t late = std::erase_if(
      reservations_, [&](const Reservation& reservation) { return reservation.until < now; });
  for (size_t i = 0; i < late; ++i) Learn(false);
}

void Reservations::Learn(bool came) {
  constexpr double kNewestPart = 1.0 / 16;
  share_that_comes_ += ((came ? 1 : 0) - share_that_comes_) * kNewestPart;
}

}  // namespace latentd::batching
