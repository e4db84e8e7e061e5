// Decides by the forecast which requests may enter the queue: by bounds of pictures, bytes and
// time, by the part that each caller may have, and by the deadlines of the request and of those
// that are in the queue.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/batching/admit/demand.h"
#include "core/batching/admit/reservations.h"
#include "core/batching/admit/return_margin.h"
#include "core/batching/predict/costs.h"
#include "core/batching/predict/entry.h"
#include "core/batching/predict/timetable.h"

namespace latentd::batching {

struct Limits {
  int devices = 1;  // equal ones, which share all that is admitted
  Split split = Split::kNever;
  int pictures = 64;               // admitted and not finished
  size_t bytes = size_t{1} << 29;  // bytes of their inputs: init images and latents
  // The same together with finished pictures that are not read: result_bytes(), which is asked
  // under the queue's lock; empty: there are none.
  size_t bytes_with_results = std::numeric_limits<size_t>::max();
  std::function<size_t()> result_bytes = {};
  absl::Duration wait = absl::InfiniteDuration();  // until one begins, once its graphs are ready
};

// Forecast for a request at its admission.
struct Prospect {
  int position = 0;  // pictures before its first
  Outlook outlook;   // for all its pictures
};

// True if a client that was told `last` learns something from `now`: another position, or times
// that differ by more than a fifth.
bool IsNews(const Prospect& last, const Prospect& now);

class AdmissionControl {
 public:
  explicit AdmissionControl(Limits limits) : limits_(std::move(limits)) {}

  // Checks that `asking`, the pictures of one request, may follow those that are admitted.
  // INVALID_ARGUMENT: it can never. RESOURCE_EXHAUSTED with reason QUEUE_FULL, or DEADLINE_EXCEEDED
  // with reason PREDICTED_OVERRUN: not now, and how long to wait before it is asked again, if that
  // will help. `content` is a hash of what it asks for: the same when it is asked again.
  absl::StatusOr<Prospect> Check(Foresight& admitted, const Entries& asking, uint64_t content,
                                 const Callers& callers, const Costs& costs, absl::Time now);

  // One device works no more: its part of the places is gone, and a request that needs it finds the
  // queue full. Nothing happens for the last one.
  void LoseDevice();
  // Pictures that may be admitted and not finished.
  int places() const { return limits_.pictures; }

 private:
  // A request that asks, and what is known about it.
  struct Question {
    const Entry& first() const { return *asking.front(); }
    absl::Duration slack() const { return first().deadline - now; }
    Timetable Foresee(Entries entries) const {
      return Foresight(std::move(entries), callers, costs, devices, now).At(now);
    }

    const Entries& admitted;
    const Timetable& before;  // without it
    const Entries& asking;
    const Callers& callers;
    const Costs& costs;
    const int devices;
    const absl::Time now;
    const Reservations::Who who;
    bool comes_back = false;  // it was told to, at this time
    Reservations::Room told;  // needs of those that were told to come before
    double part = 1;          // its caller's greatest share of time and places
    Timetable after;          // with it
    absl::Duration overrun;   // how late deadlines are missed; not above zero: it fits
  };

  absl::Status CheckLimits(const Question& question) const;
  absl::Status CheckFits(Question& question);
  absl::Status CheckPlaces(const Question& question);
  absl::Status CheckCallersPlaces(const Question& question);
  absl::Status CheckAllPlaces(const Question& question);
  int PlacesOfPart(const Question& question) const;
  double PlacesKeptForAll(const Question& question);
  static double PlacesKept(const Question& question, double places,
                           absl::FunctionRef<double(absl::Time until)> expected);
  absl::Status CheckWait(const Question& question);
  absl::Status CheckBytes(const Question& question);
  absl::Status CheckDeadlines(Question& question);
  // By how much the request would be late, or make others late, if all took `margin` times as long
  // as foreseen, and it began so much later; not above zero: it is in time.
  static absl::Duration Lateness(const Question& question, double margin, absl::Duration begins);
  // Until the request fits behind those that are here, and those that were told to come are
  // through.
  absl::Duration DelayBehindAll(const Question& question, absl::Duration until_it_fits) const;
  // By how much its caller's requests together would exceed its part of the time: the device's, of
  // which none goes by while graphs are made ready.
  static absl::Duration TimeOverPart(const Question& question);
  absl::Duration TimeOfThoseBefore(const Question& question);
  static bool IsLateAnyway(const Question& question, const Entry& entry);
  // Until so many more pictures and bytes than the holders' last ones have gone.
  static absl::Duration TimeUntilPlacesAreFree(const Question& question, const Entries& holders,
                                               double pictures, double bytes);
  // The refusal, with a delay for which there will be room.
  absl::Status TellToComeBack(const Question& question, absl::Duration delay, absl::Status refusal);
  double PartOf(const Question& question);
  // Updates the margin of retry delays when a client comes that was told to.
  void Learn(const Question& question, const ReturnMargin::Delay& told, bool fits);

  Limits limits_;
  // Figures of all devices, lost ones too: limits_ has those of devices that are left.
  const int devices_ = limits_.devices, all_pictures_ = limits_.pictures;
  Reservations reservations_;
  Demand demand_;
  ReturnMargin margin_;
  absl::Time busy_until_ = absl::InfinitePast();  // as foreseen when the last one was admitted
};

}  // namespace latentd::batching
