// Decides which unit of work is next, from what every admitted picture needs next. Knows no tensor
// and no device.
//
// The policy: pictures run one after the other in the order of admission, each unit alone; those
// that wait, for their graphs or for how their decoding ends, are passed over. Whoever changes the
// policy changes Next() and nothing outside this directory.
//
// Not thread-safe: the engine guards it with its own lock.
#pragma once

#include <cstddef>
#include <list>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/base/clock.h"
#include "core/batching/unit.h"

namespace latentd::batching {

struct Limits {
  int pictures = 64;               // admitted and not finished
  size_t bytes = size_t{1} << 29;  // that they hold while they wait (their init images)
};

class Queue {
 public:
  // `clock` must outlive the queue.
  Queue(Limits limits, const Clock& clock) : limits_(limits), clock_(clock) {}

  // Admits all of `pictures`, which hold `bytes` together, or none: RESOURCE_EXHAUSTED with reason
  // QUEUE_FULL and the time after which a place is likely free. REQUIRES: new ids.
  absl::Status Admit(absl::Span<const PictureId> pictures, const Need& need, size_t bytes);

  // What the picture needs after the unit it was in. Ignored if it has been removed meanwhile.
  void Update(PictureId picture, const Need& need);

  // The picture is finished, failed or cancelled. Ignored if it has been removed before.
  void Remove(PictureId picture);

  // What to run now, or nothing if no picture can run. `may_begin`: else only pictures of which a
  // unit has run.
  std::optional<Unit> Next(bool may_begin = true);
  bool CanRun(bool may_begin = true) const;

  // Pictures that are admitted.
  int size() const { return static_cast<int>(order_.size()); }

 private:
  struct Entry {
    PictureId picture;
    Need need;
    size_t bytes;
    std::optional<absl::Time> started;
  };

  // What runs next, or null.
  const Entry* FindNext(bool may_begin) const;
  absl::Duration TimeUntilPlaceIsFree() const;

  const Limits limits_;
  const Clock& clock_;
  std::list<Entry> order_;
  absl::flat_hash_map<PictureId, std::list<Entry>::iterator> entries_;
  size_t bytes_ = 0;
  std::optional<absl::Duration> picture_time_;  // of the picture finished last
};

}  // namespace latentd::batching
