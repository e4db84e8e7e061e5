// Whose turn it is on the device: lanes share its time in equal parts, whatever one of their units
// takes (start-time fair queueing: P. Goyal, H. Vin, H. Cheng, 1996). A lane that had nothing to do
// gets no time for that later.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/batching/unit.h"

namespace latentd::batching {

class Turns {
 public:
  // The lane of these that has had least, the first of several; nothing where there are none.
  std::optional<Lane> Next(absl::Span<const Lane> lanes) const;

  // It gets the device, for about as long as its unit of that kind took the last time.
  void Begin(const Lane& lane, UnitKind kind);

  // What a unit took that has ended.
  void Measure(const Lane& lane, UnitKind kind, absl::Duration took);

  // That it keeps in mind.
  size_t lanes() const { return accounts_.size(); }

 private:
  struct Account {
    absl::Duration until;  // of the time that all share: where its next unit begins
    absl::flat_hash_map<UnitKind, absl::Duration> last;  // by kind, what a unit took
  };
  // Sizes are the clients' choice; when it knows that many it forgets them.
  static constexpr size_t kMostLanes = 256;

  absl::Duration StartOf(const Lane& lane) const;

  absl::Duration now_;  // where the unit began that had the last turn
  absl::flat_hash_map<Lane, Account> accounts_;
};

}  // namespace latentd::batching
