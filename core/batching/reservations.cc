#include "core/batching/reservations.h"

#include <algorithm>

namespace latentd::batching {
namespace {

// Clients come when their timer fires, many add a part of the delay so as not to come all at once,
// and what they send takes its time.
constexpr absl::Duration kEarly = absl::Milliseconds(50);
absl::Duration LatenessOf(absl::Duration delay) { return delay * 0.3 + absl::Seconds(2); }

// Of a client that comes at any moment of a window alike: the chance that it is before `until`.
double ShareBefore(absl::Time until, absl::Time opens, absl::Time closes) {
  if (until >= closes) return 1;
  return absl::FDivDuration(until - opens, closes - opens);
}

}  // namespace

void Reservations::Add(uint64_t who, absl::Time now, absl::Duration delay, const Room& room) {
  DropLate(now);
  reservations_.remove_if([&](const Reservation& other) { return other.who == who; });
  if (reservations_.size() >= kMost) return;
  const absl::Time from = now + delay;
  reservations_.push_back({who, from - kEarly, from + LatenessOf(delay), room});
}

bool Reservations::Take(uint64_t who, absl::Time now) {
  DropLate(now);
  const auto mine =
      std::find_if(reservations_.begin(), reservations_.end(),
                   [&](const Reservation& other) { return other.who == who && other.from <= now; });
  if (mine == reservations_.end()) return false;
  reservations_.erase(mine);
  Learn(true);
  return true;
}

Reservations::Room Reservations::Expected(absl::Time now, absl::Time until, uint64_t who) {
  DropLate(now);
  Room room;
  for (const Reservation& other : reservations_) {
    if (other.from > until || other.who == who) continue;
    room.time += other.room.time * ShareBefore(until, std::max(now, other.from), other.until);
    room.pictures += other.room.pictures;
  }
  return {room.time * share_that_comes_, room.pictures * share_that_comes_};
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
