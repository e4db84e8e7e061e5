// A picture in the queue, and in which order those begin that wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/batching/costs.h"
#include "core/batching/forecast.h"
#include "core/batching/turns.h"
#include "core/batching/unit.h"

namespace latentd::batching {

struct Entry {
  bool is_first_of_request() const { return picture == request; }

  PictureId picture = 0;
  PictureId request = 0;  // the first of its pictures
  Need need;
  size_t bytes = 0;  // of the request, with its first picture
  std::string caller;
  double weight = 1;  // by its priority (WeightOf)
  int together = 1;   // pictures of the request
  double work = 0;    // Runner::work: what it has asked for, before it began
  absl::Time admitted;
  absl::Time deadline = absl::InfiniteFuture();
  absl::Time due;                // DueOf these
  bool started = false;          // a unit of it has run
  bool request_started = false;  // or of another one of its request's pictures
  uint64_t previewed = 0;        // which preview of all its last one was; 0: it has had none
  uint64_t stepped = 0;          // which step of all
  bool asks_for_rows = false;    // by the unit that it is in
  bool found_no_rows = false;    // when it last asked; others go first then
};
using Entries = std::vector<const Entry*>;

// Of the device's time and of the order, what one of priority 0 has 1 of.
double WeightOf(int priority);

// When a request should be done, for the order: at its deadline, or a minute after its admission
// where that is earlier, so that nobody waits for ever; the sooner the higher its priority is.
absl::Time DueOf(absl::Time admitted, absl::Time deadline, double weight);

bool IsRunnable(const Entry& entry);

// Of a picture that has not begun.
double RequestWorkOf(const Entry& entry);

using Callers = Turns<std::string>;

// What a forecast plays of it.
ForecastPicture PictureOf(const Entry& entry);

// What the pictures of a request take that nobody shares the device with; one unit of text for all.
absl::Duration AloneTime(const Entries& request, const Costs& costs);

Entries AsDue(Entries entries);

// Those that have begun as they were admitted, then the others as they are to begin. Callers take
// turns by the time that their requests take alone and their priority; a caller's own requests come
// as they are due, and a request's pictures one after the other.
Entries InOrder(const Entries& entries, const Callers& callers, const Costs& costs);

}  // namespace latentd::batching
