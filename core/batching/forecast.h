// When pictures will be done that share a device: their ways through their lanes, played in
// advance.
//
// Lanes share the device's time by their weights, and in a lane all that are in it take each step
// together, and the previews that come between two. Whatever else is no step is taken to hold
// everybody up. A few hundred events for a full
// queue, whatever the pictures' steps.
//
// Pure: any thread.
#pragma once

#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/batching/costs.h"
#include "core/batching/unit.h"

namespace latentd::batching {

struct ForecastPicture {
  Ahead ahead;
  int rows = 1;
  int lane_rows = 1;  // that its lane has at most
  double weight = 1;
};

struct Outlook {
  absl::Duration begins;  // from now: when its first unit runs that is left
  absl::Duration ends;    // when the last one is done
  bool known = true;      // or too little is known of what it has left: then it takes more
};

// Of `pictures`, which begin in this order as far as their lanes have rows.
std::vector<Outlook> Foresee(absl::Span<const ForecastPicture> pictures, const Costs& costs);

}  // namespace latentd::batching
