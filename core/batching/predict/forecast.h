// When pictures will be done that share a device: their ways through their lanes, played in
// advance, as the queue would run them (queue.h). A unit that is no step, nor preview between two,
// is taken to hold up all pictures. A picture whose graphs are not ready yet takes part from then
// on, and holds up none before. A few hundred events for a full queue, whatever the pictures'
// steps.
//
// Pure: any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/batching/predict/costs.h"
#include "core/batching/predict/unit.h"

namespace latentd::batching {

enum class Sharing : uint8_t {
  kInTurns,     // lanes by their weights, and in a lane all that are in it; short ones pass
  kNonePasses,  // the same, but that none passes
  kByDeadline,  // the earliest deadline first, with pictures that make its steps cheaper
};

struct ForecastPicture {
  // Rows of its lane, for passing pictures too.
  int places() const { return std::max(lane_rows, lane_places); }

  Ahead ahead;
  int lane_rows = 1;    // the most that its lane evaluates at once
  int lane_places = 0;  // places that its lane has, where those are more
  double weight = 1;
  double work = 0;     // work of its request (Runner::work)
  bool begun = false;  // rows of its lane are kept for it
  // From now: it begins no sooner, and others that could go before it. Infinite: it is not known
  // when, nor its outlook, and it is left out.
  absl::Duration ready_in;
};

struct Outlook {
  absl::Duration begins;  // from now: when its first unit runs that is left
  absl::Duration ends;    // when the last one is done
  bool known = true;      // or too little is known of what it has left: then it takes more
};

// Outlooks of `pictures`, which begin in this order as far as their lanes have rows; by deadline,
// they are due in this order.
std::vector<Outlook> Foresee(absl::Span<const ForecastPicture> pictures, Sharing sharing,
                             const Costs& costs);

}  // namespace latentd::batching
