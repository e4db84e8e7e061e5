#include "core/batching/predict/timetable.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "core/batching/predict/turns.h"

namespace latentd::batching {
namespace {

// Entries whose ways are played in advance: a longer queue is not worth the time.
constexpr size_t kMostForeseen = 256;

std::vector<Outlook> Play(Sharing sharing, const Entries& order, const Costs& costs,
                          absl::Time from) {
  std::vector<ForecastPicture> pictures;
  for (size_t i = 0; i < std::min(order.size(), kMostForeseen); ++i) {
    pictures.push_back(PictureOf(*order[i], from));
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

// The device of each of the ordered entries. A request that waits goes to the one that will have
// least to do.
std::vector<int> DevicesOf(const Entries& order, const Costs& costs, int count) {
  std::vector<absl::Duration> work(count);
  std::vector<int> devices;
  for (const Entry* entry : order) {
    int device = entry->device;
    if (device < 0 && !devices.empty() && order[devices.size() - 1]->request == entry->request) {
      device = devices.back();
    }
    for (int i = 0; i < count && entry->device < 0 && entry->is_first_of_request(); ++i) {
      if (entry->MayRunOn(i) && (device < 0 || work[i] < work[device])) device = i;
    }
    devices.push_back(std::max(device, 0));
    const ForecastPicture picture = PictureOf(*entry);
    work[devices.back()] += CountedTime(costs.Shared(picture.ahead, picture.lane_rows));
  }
  return devices;
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
    if (order[i]->need.ready == absl::InfiniteFuture()) return absl::InfiniteDuration();
    return i < kMostForeseen ? outlooks[i].begins : absl::InfiniteDuration();
  };
  std::vector<size_t> by_begin(order.size());
  std::iota(by_begin.begin(), by_begin.end(), size_t{0});
  absl::c_stable_sort(by_begin, [&](size_t a, size_t b) { return begins(a) < begins(b); });
  std::vector<int> positions(order.size());
  std::vector<int> counts(devices.empty() ? 1 : devices.back() + 1);  // by device, in their order
  for (size_t i : by_begin) positions[i] = counts[devices.empty() ? 0 : devices[i]]++;
  return positions;
}

absl::Duration Timetable::LastEnd() const {
  absl::Duration end;
  for (const Outlook& outlook : outlooks) end = std::max(end, outlook.ends);
  return end;
}

DeviceForesight::DeviceForesight(Entries entries, Entries order, const Costs& costs,
                                 absl::Time from)
    : costs_(costs),
      from_(from),
      entries_(std::move(entries)),
      has_deadlines_(absl::c_any_of(
          entries_, [](const Entry* entry) { return entry->deadline < absl::InfiniteFuture(); })),
      in_turns_{.sharing = Sharing::kInTurns, .order = std::move(order)} {}

const Timetable& DeviceForesight::At(absl::Time now) {
  if (in_turns_.outlooks.size() < in_turns_.order.size()) {
    in_turns_.outlooks = Play(Sharing::kInTurns, in_turns_.order, costs_, from_);
  }
  if (!has_deadlines_) return in_turns_;
  const Timetable& none_passes = NonePasses();
  const int late = CountLate(none_passes, now);
  const Timetable& in_turns = CountLate(in_turns_, now) <= late ? in_turns_ : none_passes;
  if (late == 0) return in_turns;
  const Timetable& by_deadline = ByDeadline();
  return CountLate(by_deadline, now) < late ? by_deadline : in_turns;
}

const Timetable& DeviceForesight::NonePasses() {
  if (!none_passes_) {
    none_passes_ = {Sharing::kNonePasses, in_turns_.order,
                    Play(Sharing::kNonePasses, in_turns_.order, costs_, from_)};
  }
  return *none_passes_;
}

const Timetable& DeviceForesight::ByDeadline() {
  if (!by_deadline_) {
    Entries order = AsDue(entries_);
    std::vector<Outlook> outlooks = Play(Sharing::kByDeadline, order, costs_, from_);
    by_deadline_ = {Sharing::kByDeadline, std::move(order), std::move(outlooks)};
  }
  return *by_deadline_;
}

Foresight::Foresight(Entries entries, const Callers& callers, const Costs& costs, int devices,
                     absl::Time from)
    : entries_(std::move(entries)),
      from_(from),
      awaits_graphs_(absl::c_any_of(entries_, [from](const Entry* entry) {
        const absl::Duration ready_in = ReadyIn(*entry, from);
        return ready_in > absl::ZeroDuration() && ready_in < absl::InfiniteDuration();
      })) {
  Entries order = InOrder(entries_, callers, costs);
  if (devices == 1) {
    devices_.emplace_back(entries_, std::move(order), costs, from);
    return;
  }
  order_ = std::move(order);
  all_.devices = DevicesOf(order_, costs, devices);
  absl::flat_hash_map<const Entry*, int> device_of;
  for (size_t i = 0; i < order_.size(); ++i) device_of[order_[i]] = all_.devices[i];
  absl::c_sort(all_.devices);  // as At puts one device's entries behind another's
  const auto are_on = [&](const Entries& entries, int device) {
    Entries own;
    absl::c_copy_if(entries, std::back_inserter(own),
                    [&](const Entry* entry) { return device_of[entry] == device; });
    return own;
  };
  for (int i = 0; i < devices; ++i) {
    devices_.emplace_back(are_on(entries_, i), are_on(order_, i), costs, from);
  }
}

const Timetable& Foresight::At(absl::Time now) {
  if (devices_.size() == 1) return devices_.front().At(now);
  all_.order.clear();
  all_.outlooks.clear();
  for (DeviceForesight& device : devices_) {
    const Timetable& own = device.At(now);
    absl::c_copy(own.order, std::back_inserter(all_.order));
    absl::c_copy(own.outlooks, std::back_inserter(all_.outlooks));
  }
  return all_;
}

Entries Foresight::FirstWaiting(int device) const {
  Entries first;
  for (const Entry* entry : order_) {
    const bool waits = entry->device < 0 && entry->MayRunOn(device) && IsRunnable(*entry);
    if (waits && (first.empty() || first.front()->request == entry->request)) {
      first.push_back(entry);
    }
  }
  return first;
}

}  // namespace latentd::batching
