// A picture in the queue, and in which order those begin that wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/batching/predict/costs.h"
#include "core/batching/predict/forecast.h"
#include "core/batching/predict/turns.h"
#include "core/batching/predict/unit.h"

namespace latentd::batching {

struct Entry {
  bool is_first_of_request() const { return picture == request; }
  bool MayRunOn(int on) const { return device < 0 ? (devices >> on & 1) != 0 : device == on; }

  PictureId picture = 0;
  PictureId request = 0;  // the first of its pictures
  Need need;
  size_t bytes = 0;  // inputs of the request, with its first picture
  std::string caller;
  double weight = 1;  // by its priority (WeightOf)
  int together = 1;   // pictures of the request
  double work = 0;    // Runner::work: what it has asked for, before it began
  absl::Time admitted;
  absl::Time deadline = absl::InfiniteFuture();
  absl::Time due;                // DueOf these
  bool started = false;          // a unit of it has run
  bool request_started = false;  // or of another one of its request's pictures
  uint64_t previewed = 0;        // number of its last preview among all; 0: it has had none
  uint64_t stepped = 0;          // number of its last step among all
  bool asks_for_rows = false;    // by the unit that it is in
  bool found_no_rows = false;    // when it last asked; others go first then
  uint64_t devices = 1;          // by bits, those that could run its request
  int device = -1;               // the one that has begun its request
};
using Entries = std::vector<const Entry*>;

// Scheduling weight of a priority; priority 0 has weight 1.
double WeightOf(int priority);

// When a request should be done, for the order: at its deadline, or a minute after its admission
// where that is earlier, so that no request starves; the sooner the higher its priority is.
absl::Time DueOf(absl::Time admitted, absl::Time deadline, double weight);

// False where it waits for something, or for a device: all that could run it have failed.
bool IsRunnable(const Entry& entry);

// Work of the request of a picture that has not begun.
double RequestWorkOf(const Entry& entry);

using Callers = Turns<std::string>;

// How long it takes from then on until the graphs of a picture are ready that waits for them;
// infinite: it is not known. Zero for all in the infinite future.
absl::Duration ReadyIn(const Entry& entry, absl::Time from);

// The picture as a forecast plays it from then on; or as if its graphs were ready.
ForecastPicture PictureOf(const Entry& entry, absl::Time from = absl::InfiniteFuture());

// Time of a request's pictures on a device that no other shares; one unit of text for all.
absl::Duration AloneTime(const Entries& request, const Costs& costs);

Entries AsDue(Entries entries);

// The begun entries as they were admitted, then the others as they are to begin. Callers take
// turns by the time that their requests take alone and their priority; a caller's own requests come
// as they are due, and a request's pictures one after the other.
Entries InOrder(const Entries& entries, const Callers& callers, const Costs& costs);

}  // namespace latentd::batching
