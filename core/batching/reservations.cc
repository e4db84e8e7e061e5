#include "core/batching/reservations.h"

#include <algorithm>

namespace latentd::batching {
namespace {

// Clients come when their timer fires, many add a part of the delay so as not to come all at once,
// and what they send takes its time.
constexpr absl::Duration kEarly = absl::Milliseconds(50);
absl::Duration LatenessOf(absl::Duration delay) { return delay * 0.3 + absl::Seconds(1); }

double SecondsOf(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

// Which of the caller's requests does not count.
std::optional<uint64_t> ExceptOf(uint64_t caller, const Reservations::Who& who) {
  return caller == who.caller ? std::optional(who.content) : std::nullopt;
}

}  // namespace

void Reservations::Add(const Who& who, absl::Time now, absl::Duration delay, absl::Time deadline,
                       const Room& room, double margin) {
  DropLate(SecondsOf(now));
  Caller& caller = callers_[who.caller];
  const auto before = caller.windows.find(who.content);
  if (before != caller.windows.end()) {
    if (before->second.came) Learn(caller, before->second);
    caller.windows.erase(before);
    --count_;
  }
  if (count_ >= kMost) {
    if (caller.windows.empty()) callers_.erase(who.caller);
    return;
  }
  const absl::Time from = now + delay;
  const Window window{.from = SecondsOf(from - kEarly),
                      .until = SecondsOf(from + LatenessOf(delay)),
                      .time = absl::ToDoubleSeconds(room.time),
                      .pictures = room.pictures,
                      .margin = margin,
                      .in_time = from < deadline};
  caller.windows[who.content] = window;
  ++count_;
  first_until_ = std::min(first_until_, window.until);
}

// Kept until its time is over, as is one that does not come: or those that come were learned of
// earlier than those that do not.
std::optional<double> Reservations::Take(const Who& who, absl::Time now) {
  DropLate(SecondsOf(now));
  const auto caller = callers_.find(who.caller);
  if (caller == callers_.end()) return std::nullopt;
  const auto mine = caller->second.windows.find(who.content);
  if (mine == caller->second.windows.end()) return std::nullopt;
  Window& window = mine->second;
  if (window.came || window.from > SecondsOf(now)) return std::nullopt;
  window.came = true;
  return window.margin;
}

Reservations::Room Reservations::ExpectedOf(const Caller& caller, std::optional<uint64_t> except,
                                            absl::Time now, absl::Time until) {
  const double start = SecondsOf(now), end = SecondsOf(until);
  double time = 0, pictures = 0;
  for (const auto& [content, window] : caller.windows) {
    if (window.from > end || window.came || content == except) continue;
    const double opens = std::max(start, window.from);
    const double part = caller.shares[window.in_time] / (window.until - window.from);
    pictures += window.pictures * (window.until - opens) * part;
    time += window.time * (std::min(end, window.until) - opens) * part;
  }
  return {absl::Seconds(time), pictures};
}

absl::Duration Reservations::ExpectedTime(absl::Time now, absl::Time until, const Who& who) {
  DropLate(SecondsOf(now));
  absl::Duration time;
  for (const auto& [name, caller] : callers_) {
    time += ExpectedOf(caller, ExceptOf(name, who), now, until).time;
  }
  return time;
}

double Reservations::ExpectedPictures(absl::Time now, absl::Time until, const Who& who,
                                      absl::FunctionRef<double(uint64_t caller)> most) {
  DropLate(SecondsOf(now));
  double pictures = 0;
  for (const auto& [name, caller] : callers_) {
    const double expected = ExpectedOf(caller, ExceptOf(name, who), now, until).pictures;
    pictures += std::min(expected, most(name));
  }
  return pictures;
}

double Reservations::ExpectedPicturesOfCaller(absl::Time now, absl::Time until, const Who& who) {
  DropLate(SecondsOf(now));
  const auto own = callers_.find(who.caller);
  return own == callers_.end() ? 0 : ExpectedOf(own->second, who.content, now, until).pictures;
}

void Reservations::DropLate(double now) {
  if (first_until_ >= now) return;
  first_until_ = kNever;
  for (auto& each : callers_) {
    Caller& caller = each.second;
    count_ -= absl::erase_if(caller.windows, [&](const auto& entry) {
      const Window& window = entry.second;
      const bool is_late = window.until < now;
      if (is_late) Learn(caller, window);
      if (!is_late) first_until_ = std::min(first_until_, window.until);
      return is_late;
    });
  }
  if (callers_.size() > kMostCallers) {
    absl::erase_if(callers_, [](const auto& entry) { return entry.second.windows.empty(); });
  }
}

void Reservations::Learn(Caller& caller, const Window& window) {
  constexpr double kNewestPart = 1.0 / 16;
  double& share = caller.shares[window.in_time];
  share += ((window.came ? 1 : 0) - share) * kNewestPart;
}

}  // namespace latentd::batching
