// Time as something that is passed in, so that tests move it by hand.
#pragma once

#include "absl/time/time.h"

namespace latentd {

// All methods may be called from any thread.
class Clock {
 public:
  virtual ~Clock() = default;

  // Never goes backwards; for durations and deadlines. The zero point has no meaning.
  virtual absl::Time Monotonic() const = 0;

  // The time of a wall clock, for log lines, file times and values that others compare with their
  // own clock, such as spans.
  virtual absl::Time Wall() const = 0;
};

// The machine's clock. Lives for ever.
const Clock& SystemClock();

}  // namespace latentd
