// Whether a request may enter the queue: bounds of pictures, bytes and time, a fair share of the
// places for each caller, and deadlines, those of who is in the queue and its own, as the forecast
// says.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/batching/costs.h"
#include "core/batching/demand.h"
#include "core/batching/entry.h"
#include "core/batching/reservations.h"
#include "core/batching/timetable.h"

namespace latentd::batching {

struct Limits {
  int pictures = 64;               // admitted and not finished
  size_t bytes = size_t{1} << 29;  // that they have brought: init images and latents
  // The same together with finished pictures that are not read: result_bytes(), which is asked
  // under the queue's lock; empty: there are none.
  size_t bytes_with_results = std::numeric_limits<size_t>::max();
  std::function<size_t()> result_bytes = {};
  absl::Duration wait = absl::InfiniteDuration();  // until one begins, as foreseen
};

// What is known of a request at its admission.
struct Prospect {
  int position = 0;  // pictures before its first
  Outlook outlook;   // of all of them
};

// Whether it tells who has been told `last` something: another position, or times that differ by
// more than a fifth.
bool IsNews(const Prospect& last, const Prospect& now);

// What becomes of a request that is refused.
struct Return {
  uint64_t content = 0;    // tells it from others of its caller: who comes back has the same
  bool comes_back = true;  // when it is told to; else no room is kept for it
};

class AdmissionControl {
 public:
  explicit AdmissionControl(Limits limits) : limits_(std::move(limits)) {}

  // Whether `asking`, the pictures of one request, may follow those that are admitted.
  // INVALID_ARGUMENT: it can never. RESOURCE_EXHAUSTED with reason QUEUE_FULL, or DEADLINE_EXCEEDED
  // with reason PREDICTED_OVERRUN: not now, and how long to wait before it is asked again, if that
  // will help.
  absl::StatusOr<Prospect> Check(Foresight& admitted, const Entries& asking, const Return& refused,
                                 const Callers& callers, const Costs& costs, absl::Time now);

 private:
  // A request that asks, and what is known about it.
  struct Question {
    const Entry& first() const { return *asking.front(); }
    absl::Duration slack() const { return first().deadline - now; }
    Timetable Foresee(Entries entries) const {
      return Foresight(std::move(entries), callers, costs).At(now);
    }

    const Entries& admitted;
    const Timetable& before;  // without it
    const Entries& asking;
    const Callers& callers;
    const Costs& costs;
    const absl::Time now;
    const Reservations::Who who;
    const bool keeps_room;    // if it is refused
    bool comes_back = false;  // it was told to, at this time
    double part = 1;          // that its caller may have, of time and places
    Timetable after;          // with it
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
  absl::Status CheckDeadlines(const Question& question);
  // By how much the request would be late, or make others late, or take more than its caller's part
  // of the time; not above zero: it fits. `before`: TimeOfThoseBefore.
  absl::Duration Overrun(const Question& question, absl::Duration before);
  absl::Duration TimeOfThoseBefore(const Question& question);
  absl::Duration TimeOfOthersTold(const Question& question, absl::Duration before);
  static bool IsLateAnyway(const Question& question, const Entry& entry);
  absl::Duration TimeUntilPlacesAreFree(const Question& question, const Entries& holders,
                                        double pictures, size_t bytes) const;
  // The refusal, with a delay for which there will be room.
  absl::Status TellToComeBack(const Question& question, absl::Duration delay, absl::Status refusal);
  double PartOf(const Question& question);
  // Of one who came when told.
  void LearnMargin(double told_with, bool admitted);

  static constexpr double kLeastMargin = 1.3;

  const Limits limits_;
  Reservations reservations_;
  Demand demand_;
  // Delays are so many times as long as those need who were told before: what they take differs
  // from what is foreseen, and who comes too early is refused again. Learned of those who came.
  double margin_ = kLeastMargin;
};

}  // namespace latentd::batching
