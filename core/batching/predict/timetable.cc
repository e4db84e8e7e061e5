#include "core/batching/predict/timetable.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"

namespace latentd::batching {
namespace {

// Entries whose ways are played in advance: a longer queue is not worth the time.
constexpr size_t kMostForeseen = 256;

std::vector<Outlook> Play(Sharing sharing, const Entries& order, const Costs& costs) {
  std::vector<ForecastPicture> pictures;
  for (size_t i = 0; i < std::min(order.size(), kMostForeseen); ++i) {
    pictures.push_back(PictureOf(*order[i]));
  }
  std::vector<Outlook> outlooks = Foresee(pictures, sharing, costs);
  outlooks.resize(order.size(), {.known = false});
  return outlooks;
}

// For requests that may come and pass those that are there: twice what is foreseen, at
// most this. Without it passing would leave too little of the time until deadlines.
constexpr absl::Duration kMostForThoseToCome = absl::Seconds(10);

int CountLate(const Timetable& timetable, absl::Time now) {
  int late = 0;
  for (size_t i = 0; i < timetable.order.size(); ++i) {
    Outlook outlook = timetable.outlooks[i];
    if (timetable.sharing == Sharing::kInTurns) {
      outlook.ends += std::min(outlook.ends * 2, kMostForThoseToCome);
    }
    const bool is_late = LatenessOf(*timetable.order[i], outlook, now) > absl::ZeroDuration();
    late += is_late ? 1 : 0;
  }
  return late;
}

}  // namespace

absl::Duration LatenessOf(const Entry& entry, const Outlook& outlook, absl::Time now) {
  return outlook.ends * kForecastMargin - (entry.deadline - now);
}

Outlook Timetable::OfRequest(PictureId request) const {
  std::optional<Outlook> of;
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i]->request != request) continue;
    if (!of) of = outlooks[i];
    of->ends = std::max(of->ends, outlooks[i].ends);
    of->known = of->known && outlooks[i].known;
  }
  return of.value_or(Outlook{});
}

std::vector<int> Timetable::Positions() const {
  const auto begins = [this](size_t i) {
    if (order[i]->started) return -absl::InfiniteDuration();
    return i < kMostForeseen ? outlooks[i].begins : absl::InfiniteDuration();
  };
  std::vector<size_t> by_begin(order.size());
  std::iota(by_begin.begin(), by_begin.end(), size_t{0});
  absl::c_stable_sort(by_begin, [&](size_t a, size_t b) { return begins(a) < begins(b); });
  std::vector<int> positions(order.size());
  for (size_t i = 0; i < by_begin.size(); ++i) positions[by_begin[i]] = static_cast<int>(i);
  return positions;
}

absl::Duration Timetable::LastEnd() const {
  absl::Duration end;
  for (const Outlook& outlook : outlooks) end = std::max(end, outlook.ends);
  return end;
}

Foresight::Foresight(Entries entries, const Callers& callers, const Costs& costs)
    : costs_(costs),
      entries_(std::move(entries)),
      has_deadlines_(absl::c_any_of(
          entries_, [](const Entry* entry) { return entry->deadline < absl::InfiniteFuture(); })),
      in_turns_{.sharing = Sharing::kInTurns, .order = InOrder(entries_, callers, costs)} {}

const Timetable& Foresight::At(absl::Time now) {
  if (in_turns_.outlooks.size() < in_turns_.order.size()) {
    in_turns_.outlooks = Play(Sharing::kInTurns, in_turns_.order, costs_);
  }
  if (!has_deadlines_) return in_turns_;
  const Timetable& none_passes = NonePasses();
  const int late = CountLate(none_passes, now);
  const Timetable& in_turns = CountLate(in_turns_, now) <= late ? in_turns_ : none_passes;
  if (late == 0) return in_turns;
  const Timetable& by_deadline = ByDeadline();
  return CountLate(by_deadline, now) < late ? by_deadline : in_turns;
}

const Timetable& Foresight::NonePasses() {
  if (!none_passes_) {
    none_passes_ = {Sharing::kNonePasses, in_turns_.order,
                    Play(Sharing::kNonePasses, in_turns_.order, costs_)};
  }
  return *none_passes_;
}

const Timetable& Foresight::ByDeadline() {
  if (!by_deadline_) {
    Entries order = AsDue(entries_);
    std::vector<Outlook> outlooks = Play(Sharing::kByDeadline, order, costs_);
    by_deadline_ = {Sharing::kByDeadline, std::move(order), std::move(outlooks)};
  }
  return *by_deadline_;
}

}  // namespace latentd::batching
