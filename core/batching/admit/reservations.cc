#include "core/batching/admit/reservations.h"

#include <algorithm>

#include "absl/algorithm/container.h"

namespace latentd::batching {
namespace {

// Clients come when their timer fires, many add a part of the delay so as not to come all at once,
// and what they send takes its time.
constexpr absl::Duration kEarly = absl::Milliseconds(50);
absl::Duration LatenessOf(absl::Duration delay) { return delay * 0.3 + absl::Seconds(1); }

// Equal requests that come closer to one another are not one that comes again: none is told to come
// sooner.
constexpr absl::Duration kMoment = absl::Seconds(1);

double SecondsOf(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

}  // namespace

void Reservations::Share::Learn(bool came) {
  constexpr double kNewestPart = 1.0 / 16;
  came_ += ((came ? 1 : 0) - came_) * kNewestPart;
  unknown_ -= unknown_ * kNewestPart;
}

std::vector<Reservations::Window*> Reservations::Like(Caller& caller, uint64_t content) {
  std::vector<Window*> like;
  for (Window& window : caller.windows) {
    if (window.content == content && !window.came) like.push_back(&window);
  }
  return like;
}

void Reservations::Add(const Who& who, absl::Time now, absl::Duration delay, absl::Time deadline,
                       const Room& room, const ReturnMargin::Delay& reckoned) {
  DropLate(SecondsOf(now));
  if (count_ >= kMost) return;
  Caller& caller = callers_[who.caller];
  const std::vector<Window*> like = Like(caller, who.content);
  if (like.size() >= kMostEqual) return;
  for (Window* window : like) window->has_equal = true;
  const absl::Time from = now + delay;
  const Window window{.content = who.content,
                      .told = now,
                      .from = SecondsOf(from - kEarly),
                      .until = SecondsOf(from + LatenessOf(delay)),
                      .time = absl::ToDoubleSeconds(room.time),
                      .pictures = room.pictures,
                      .bytes = room.bytes,
                      .in_time = from < deadline,
                      .has_equal = !like.empty(),
                      .reckoned = reckoned};
  caller.windows.push_back(window);
  ++count_;
  first_until_ = std::min(first_until_, window.until);
}

// A window stays until its time is over, whether its client comes or not: or those that come were
// learned of earlier than those that do not.
std::optional<ReturnMargin::Delay> Reservations::Take(const Who& who, absl::Time now) {
  DropLate(SecondsOf(now));
  const auto caller = callers_.find(who.caller);
  if (caller == callers_.end()) return std::nullopt;
  const std::vector<Window*> like = Like(caller->second, who.content);
  if (like.empty()) return std::nullopt;
  Window& first = **absl::c_min_element(
      like, [](const Window* a, const Window* b) { return a->from < b->from; });
  if (first.from <= SecondsOf(now)) {
    first.came = true;
    return first.reckoned;
  }
  if (!first.has_equal && first.told + kMoment <= now) {
    caller->second.windows.erase(caller->second.windows.begin() +
                                 (&first - caller->second.windows.data()));
    --count_;
  }
  return std::nullopt;
}

Reservations::Room Reservations::Sum(const Caller& caller, const std::array<double, 2>& shares,
                                     absl::Time now, absl::Time until) {
  const double start = SecondsOf(now), end = SecondsOf(until);
  double time = 0, pictures = 0, bytes = 0;
  for (const Window& window : caller.windows) {
    if (window.from > end || window.came) continue;
    const double opens = std::max(start, window.from);
    const double part = shares[window.in_time] / (window.until - window.from);
    pictures += window.pictures * (window.until - opens) * part;
    bytes += window.bytes * (window.until - opens) * part;
    time += window.time * (std::min(end, window.until) - opens) * part;
  }
  return {absl::Seconds(time), pictures, bytes};
}

Reservations::Room Reservations::ExpectedOf(const Caller& caller, absl::Time now,
                                            absl::Time until) {
  return Sum(caller, {caller.shares[0].likely(), caller.shares[1].likely()}, now, until);
}

Reservations::Room Reservations::ToldOf(const Caller& caller, absl::Time now) {
  return Sum(caller, {caller.shares[0].most(), caller.shares[1].most()}, now,
             absl::InfiniteFuture());
}

absl::Duration Reservations::ExpectedTime(absl::Time now, absl::Time until) {
  DropLate(SecondsOf(now));
  absl::Duration time;
  for (const auto& [name, caller] : callers_) time += ExpectedOf(caller, now, until).time;
  return time;
}

double Reservations::ExpectedPictures(absl::Time now, absl::Time until,
                                      absl::FunctionRef<double(uint64_t caller)> most) {
  DropLate(SecondsOf(now));
  double pictures = 0;
  for (const auto& [name, caller] : callers_) {
    pictures += std::min(ExpectedOf(caller, now, until).pictures, most(name));
  }
  return pictures;
}

double Reservations::ExpectedPicturesOfCaller(absl::Time now, absl::Time until, uint64_t caller) {
  DropLate(SecondsOf(now));
  const auto own = callers_.find(caller);
  return own == callers_.end() ? 0 : ExpectedOf(own->second, now, until).pictures;
}

double Reservations::ExpectedBytes(absl::Time now, absl::Time until) {
  DropLate(SecondsOf(now));
  double bytes = 0;
  for (const auto& [name, caller] : callers_) bytes += ExpectedOf(caller, now, until).bytes;
  return bytes;
}

Reservations::Room Reservations::Told(absl::Time now) {
  DropLate(SecondsOf(now));
  Room all;
  for (const auto& [name, caller] : callers_) {
    const Room room = ToldOf(caller, now);
    all.time += room.time;
    all.pictures += room.pictures;
    all.bytes += room.bytes;
  }
  return all;
}

Reservations::Room Reservations::ToldOfCaller(absl::Time now, uint64_t caller) {
  DropLate(SecondsOf(now));
  const auto own = callers_.find(caller);
  return own == callers_.end() ? Room{} : ToldOf(own->second, now);
}

void Reservations::DropLate(double now) {
  if (first_until_ >= now) return;
  first_until_ = kNever;
  for (auto& each : callers_) {
    Caller& caller = each.second;
    count_ -= std::erase_if(caller.windows, [&](const Window& window) {
      const bool is_late = window.until < now;
      if (is_late) caller.shares[window.in_time].Learn(window.came);
      if (!is_late) first_until_ = std::min(first_until_, window.until);
      return is_late;
    });
  }
  if (callers_.size() > kMostCallers) {
    absl::erase_if(callers_, [](const auto& entry) { return entry.second.windows.empty(); });
  }
}

}  // namespace latentd::batching
