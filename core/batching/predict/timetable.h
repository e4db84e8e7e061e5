// When the pictures of a queue will be done, and how they share the devices until then: what a
// forecast says of its entries, by which the queue runs units and admission refuses.
//
// Not thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "core/batching/predict/costs.h"
#include "core/batching/predict/entry.h"
#include "core/batching/predict/forecast.h"

namespace latentd::batching {

// Safety factor on forecasts; also covers the units after a picture's last one.
inline constexpr double kForecastMargin = 1.1;

// By how much a picture that will end then may be late. Not above zero: it is in time.
absl::Duration LatenessOf(const Entry& entry, const Outlook& outlook, absl::Time now);

// How entries share a device, or several, in which order, and when they will be done. The end of a
// very long queue is not known.
struct Timetable {
  // Outlook of the entries of one request: begins with its first, ends with its last.
  Outlook OfRequest(PictureId request) const;
  // For each, the number of those that begin before it, or have begun, on its device.
  std::vector<int> Positions() const;
  // The last end of those whose end is known.
  absl::Duration LastEnd() const;

  Sharing sharing = Sharing::kInTurns;
  Entries order;  // InOrder; by deadline, as they are due
  std::vector<Outlook> outlooks;
  std::vector<int> devices;  // device of each, if there are several
};

// The timetables of entries of one device that do not change. Each is played when it is first asked
// for; which of them holds, and which pictures are late by it, depends on the time too.
class DeviceForesight {
 public:
  // `entries` are in the order of their admission, `order` is InOrder. Borrows them and the costs:
  // neither may change meanwhile. Played from that time on; in the infinite future: as if the
  // graphs of all were ready.
  DeviceForesight(Entries entries, Entries order, const Costs& costs,
                  absl::Time from = absl::InfiniteFuture());

  // They take turns, and short ones pass unless more would be late by that or by others that come.
  // They go by deadline if some would be late though none passed, and fewer by deadline.
  const Timetable& At(absl::Time now);
  // The same, but without outlooks where none of them has a deadline: that is not played.
  const Timetable& OrderAt(absl::Time now) { return has_deadlines_ ? At(now) : in_turns_; }

 private:
  const Timetable& NonePasses();
  const Timetable& ByDeadline();

  const Costs& costs_;
  const absl::Time from_;
  const Entries entries_;
  const bool has_deadlines_;
  Timetable in_turns_;  // without outlooks until it is played
  std::optional<Timetable> none_passes_;
  std::optional<Timetable> by_deadline_;
};

// The timetables of entries of a queue. A waiting request is foreseen on the device that will have
// least to do, of those that could run it; it begins on the one that is free first.
class Foresight {
 public:
  // As DeviceForesight.
  Foresight(Entries entries, const Callers& callers, const Costs& costs, int devices = 1,
            absl::Time from = absl::InfiniteFuture());

  const Entries& entries() const { return entries_; }
  // False: some graphs will be ready sooner from then on than from the time of this.
  bool Holds(absl::Time now) const { return now == from_ || !awaits_graphs_; }
  // Timetable of all devices together. The next call may change it.
  const Timetable& At(absl::Time now);
  // Timetables of one device.
  const Timetable& At(absl::Time now, int device) { return devices_[device].At(now); }
  const Timetable& OrderAt(absl::Time now, int device) { return devices_[device].OrderAt(now); }
  // The runnable pictures of the first request that waits, of those that the device could run.
  Entries FirstWaiting(int device) const;

 private:
  const Entries entries_;
  const absl::Time from_;
  const bool awaits_graphs_;
  Entries order_;  // all entries, if there are several devices
  std::vector<DeviceForesight> devices_;
  Timetable all_;
};

}  // namespace latentd::batching
