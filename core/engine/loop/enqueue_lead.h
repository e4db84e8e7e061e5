// How long before the device is done with a unit the next one is given to it. Late, so that who
// arrives while a unit runs waits for that one alone, and not for one behind it; but early enough
// that the device need not wait for the host. Learned, by the kind of unit that runs: of what it
// took less than was predicted, and of what the host took to enqueue the next one.
//
// Not thread-safe.
#pragma once

#include <array>

#include "absl/time/time.h"
#include "core/batching/predict/unit.h"

namespace latentd::engine {

class EnqueueLead {
 public:
  // When to begin to enqueue what comes behind a unit that the device is at since `began`, and is
  // predicted to be for `expected`. At once where nothing is predicted.
  absl::Time EnqueueAt(batching::UnitKind kind, absl::Time began, absl::Duration expected) const;

  // The device was done with such a unit at `ended`; `enqueuing` is what the host took for the one
  // behind it, from when it was to begin with that.
  void Learn(batching::UnitKind kind, absl::Time predicted_end, absl::Time ended,
             absl::Duration enqueuing);

 private:
  std::array<absl::Duration, batching::kUnitKinds> needed_ = {};
};

}  // namespace latentd::engine
