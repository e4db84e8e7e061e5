// Decides which unit of work is next, and of which pictures, from what every admitted picture needs
// next. Knows no tensor and no device.
//
// The policy. Lanes share the device's time in equal parts (turns.h). In a lane every picture whose
// step is next takes it together with the others, the first of them in the order of admission where
// not all have rows. Between two steps of a lane there is at most one other unit, or one for each
// picture of a request: a decode before what begins. Pictures begin in the order of admission, as
// soon as rows are free that nobody who began before them will take; none overtakes one that waits
// for more rows than are free. What waits for its graphs, or for how its decoding ends, is passed
// over. Whoever changes the policy changes Next() and nothing outside this directory.
//
// Not thread-safe: the engine guards it with its own lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/base/clock.h"
#include "core/batching/turns.h"
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

  // Admits all of `pictures`, which are one request's and hold `bytes` together, or none:
  // RESOURCE_EXHAUSTED with reason QUEUE_FULL and the time after which a place is likely free.
  // REQUIRES: new ids.
  absl::Status Admit(absl::Span<const PictureId> pictures, const Need& need, size_t bytes);

  // What the picture needs after the unit it was in. Ignored if it has been removed meanwhile.
  void Update(PictureId picture, const Need& need);

  // The picture is finished, failed or cancelled. Ignored if it has been removed before.
  void Remove(PictureId picture);

  // What to run now, or nothing if no picture can run. `may_begin`: else only pictures of which a
  // unit has run.
  std::optional<Unit> Next(bool may_begin = true);
  bool CanRun(bool may_begin = true) const;

  // What a unit that Next gave took.
  void Measure(const Unit& unit, absl::Duration took) {
    turns_.Measure(unit.lane, unit.kind, took);
  }

  // Pictures that are admitted.
  int size() const { return static_cast<int>(order_.size()); }

 private:
  struct Entry {
    PictureId picture;
    PictureId request;  // the first of its pictures
    Need need;
    size_t bytes;
    std::optional<absl::Time> started;
  };
  using Entries = absl::InlinedVector<const Entry*, kMostRows>;
  // What there is to do in a lane.
  struct LaneWork {
    Lane lane;
    const Entry* decode = nullptr;   // the first
    const Entry* prepare = nullptr;  // the first whose prompts or init image are to be encoded
    Entries joined, joining;         // whose step is next
    int rows = 0;                    // of one evaluation, by graphs
    int capacity = kMostRows;        // the same, by memory
    int rows_promised = 0;           // to who has begun and is not through its steps
    bool full = false;               // there are too few for who would begin next

    int limit() const { return std::min(rows, capacity); }
    bool can_step() const { return !joined.empty() || !joining.empty(); }
  };
  using Works = absl::InlinedVector<LaneWork, 4>;
  // What a lane ran last.
  struct LastUnit {
    UnitKind kind = UnitKind::kStep;
    PictureId request = 0;
  };

  Works WorkByLane(bool may_begin) const;
  static void AddBegun(const Entry& entry, LaneWork& work);
  static void AddWaiting(const Entry& entry, LaneWork& work);
  Unit UnitOf(const LaneWork& work) const;
  static Unit StepOf(const LaneWork& work);
  void Start(const Unit& unit);
  absl::Duration TimeUntilPlaceIsFree() const;

  const Limits limits_;
  const Clock& clock_;
  std::list<Entry> order_;
  absl::flat_hash_map<PictureId, std::list<Entry>::iterator> entries_;
  Turns turns_;
  absl::flat_hash_map<Lane, LastUnit> last_;  // of lanes that have work
  size_t bytes_ = 0;
  std::optional<absl::Duration> picture_time_;  // of the picture finished last
};

}  // namespace latentd::batching
