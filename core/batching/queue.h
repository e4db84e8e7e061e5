// Decides which unit of work is next, and of which pictures, from what every admitted picture needs
// next. Knows no tensor and no device.
//
// The policy. As long as the forecast says that every deadline is kept by it (entry.h), all
// take turns. Lanes share the device's time in equal parts, or by the priority of their pictures
// (turns.h). In a lane every picture whose step is next takes it together with the others; where an
// evaluation has fewer rows, those that have waited longest for one. Between two steps of a lane
// there are a decode, then what one request begins with, then a preview, and more of each while all
// of it takes no longer than the step: else short pictures would end faster than others begin
// beside them. Pictures begin in the order of entry.h, fair to callers and by their deadlines, as
// soon as rows are free that no earlier picture will take; none overtakes one that waits
// for more rows than are free.
//
// But half of the device's time is for the request that asks for least, while others ask for twice
// as much or more and hold it up (passing.h): it begins at once, and takes its units by itself, or
// with others that make its steps hardly longer. The others share the rest as if it were not there,
// and where an evaluation has no rows for all, they rest meanwhile: lanes have more rows than an
// evaluation, so that it can pass. A request for about the same goes on in its order: nothing is
// gained by passing, and equal requests share their steps. Nor does a picture pass others whose
// steps it shares where rows cost much less together, nor where that would leave deadlines too
// little time (Foresight).
//
// If taking turns would miss a deadline, the picture that is due first of all goes first,
// from step to step, and others of its lane take its steps only where evaluating them together is
// cheaper than one after the other (Costs::CountThatPays). The rest keep their rows and wait: on a
// device that is full with one picture, a short one with a short deadline passes a long one.
//
// A picture that waits for its graphs, or for how its decoding ends, is passed over; forecasts let
// it begin when its graphs are foreseen to be ready, and no sooner. A change of
// the policy changes this directory and nothing outside it; forecasts (forecast.h) and what is
// run change together.
//
// A queue of several devices, which are equal, has this policy on each of them. A request waits for
// all that could run it, and belongs to the one that takes its first unit. A device begins what is
// foreseen on it, and if there is nothing, the first request that waits. A device that fails gets
// no further unit; what has begun on it stays until it is removed.
//
// A step of one picture with two rows may be split (Split): another device helps, which evaluates
// one of them. That is decided for each step, so that a device with work of its own helps with no
// further one. A device helps one other at a time. By kAuto it does so while nothing is foreseen on
// it that could begin before the step's end, and only where steps that were split took less time
// than such without help: both are measured, and at times again. Forecasts know of no help:
// pictures end no later than they say.
//
// Not thread-safe: the engine guards it with its own lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/base/clock.h"
#include "core/batching/admit/admission_control.h"
#include "core/batching/lane_work.h"
#include "core/batching/predict/costs.h"
#include "core/batching/predict/entry.h"
#include "core/batching/predict/passing.h"
#include "core/batching/predict/timetable.h"
#include "core/batching/predict/turns.h"
#include "core/batching/predict/unit.h"

namespace latentd::batching {

// A request that asks to be admitted.
struct Arrival {
  absl::Span<const PictureId> pictures;          // its own; new
  Need need;                                     // need of each
  size_t bytes = 0;                              // bytes of their inputs together
  std::string caller;                            // the client with which it shares the device
  int priority = 0;                              // each more counts as double
  absl::Time deadline = absl::InfiniteFuture();  // in the clock's monotonic time
  // Tells it from others of its caller; the same when it is retried after a refusal.
  uint64_t content = 0;
  uint64_t devices = 1;  // by bits, those that could run it
};

// Admitted pictures that are not done.
struct Backlog {
  int pictures = 0;
  absl::Duration ends;  // from now: when the last of them will be done
  bool known = true;    // or too little is known of what they have left: then it takes more
};

class Queue {
 public:
  // `clock` must outlive the queue.
  Queue(Limits limits, const Clock& clock)
      : clock_(clock),
        split_(limits.split),
        devices_(limits.devices),
        control_(std::move(limits)) {}
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Admits all of its pictures or none: the errors of AdmissionControl::Check.
  absl::StatusOr<Prospect> Admit(const Arrival& arrival);

  // Sets the picture's need after its last unit. Ignored if it has been removed meanwhile.
  void Update(PictureId picture, const Need& need);

  // The picture is finished, failed or cancelled. Ignored if it has been removed before.
  void Remove(PictureId picture);

  // The unit to run now on that device; nothing if no picture can run there. `may_begin`: else only
  // pictures of which a unit has run.
  std::optional<Unit> Next(bool may_begin = true, int device = 0);
  bool CanRun(bool may_begin = true, int device = 0) const;

  // The device has failed: it runs nothing more and helps none. Requests of which nothing has run
  // go to the others that could run them.
  void Lose(int device);
  // The request waits for that device alone: its pictures are to run there. Ignored if it has been
  // removed, or a unit of it has run.
  void Move(absl::Span<const PictureId> request, int device);
  // Pictures that may be admitted and not finished.
  int places() const { return control_.places(); }

  // Learns the time of a unit that Next gave; an evaluation computed that many rows. 0: it did
  // nothing, or failed, and says nothing about others. A step that was not split has no helper.
  void Measure(const Unit& unit, int computed_rows, absl::Duration took);

  // Pictures that are admitted.
  int size() const { return static_cast<int>(order_.size()); }

  // Prospects of the requests of which nothing has run. By their first pictures.
  std::vector<std::pair<PictureId, Prospect>> Waiting() const;
  // Backlog of the pictures that are foreseen on that device.
  Backlog backlog(int device = 0) const;
  // Grows with whatever changes what Waiting says.
  uint64_t changes() const { return changes_; }

 private:
  using Works = std::vector<LaneWork>;
  // Units that a lane has run since its last step.
  struct Between {
    bool decoded = false, previewed = false;
    PictureId prepared = 0;  // the last request of which something was
    absl::Duration expected;
  };

  // How a device's time has been shared.
  struct DeviceTime {
    Turns<Lane> turns;
    PassingTime passing;
    absl::flat_hash_map<Lane, Between> between;  // for lanes that have work
    int helper = -1;                             // the helper with the unit that it was given last
    PictureId helped = 0;                        // the picture of that
    bool lost = false;
  };

  // Cached forecast of all; reset when anything that it depends on changes. The next call may end
  // what the last one gave.
  Foresight& foresight(absl::Time now) const;
  void ForgetForesight() { foresight_.reset(); }
  // Also finds the picture that passes others.
  Works WorkByLane(Entries order, Sharing sharing, bool may_begin, const Entry*& passes) const;
  static const LaneWork* NextLane(const Works& works, Sharing sharing, const DeviceTime& device);
  Unit UnitOf(const LaneWork& work, const DeviceTime& device) const;
  const Entry* WhoPassesOthers(const Entries& order, const Works& works, bool may_begin) const;
  bool IsHeldUp(const Need& need, absl::Duration round, int lanes) const;
  std::optional<Unit> PassingUnit(const Works& works, const Entry& passes, bool others_run,
                                  const DeviceTime& device) const;
  // The device that is to help with the unit; -1: none.
  int HelperOf(const Unit& unit, absl::Time now) const;
  bool SplitPays(const Unit& unit) const;
  bool MayHelp(int device, const Unit& unit, absl::Time now) const;
  absl::Duration SplitTime(const Lane& lane) const;
  void BeginTurn(const Unit& unit);
  static Unit StepOf(const LaneWork& work);
  bool GoesBeforeTheStep(UnitKind kind, const Entry& entry, const Unit& step,
                         const DeviceTime& device) const;
  void LookForRowsAgain();
  void Remember(const Unit& unit);
  void Start(const Unit& unit);
  void StartRequest(PictureId request, int device);
  const Entry& EntryOf(PictureId picture) const { return *entries_.find(picture)->second; }
  // Rows as Costs counts them.
  int RowsOf(const Unit& unit) const;

  const Clock& clock_;
  const Split split_;
  std::vector<DeviceTime> devices_;
  AdmissionControl control_;
  Costs costs_;
  Costs split_costs_;  // times of steps that are split
  std::list<Entry> order_;
  absl::flat_hash_map<PictureId, std::list<Entry>::iterator> entries_;
  Callers callers_;
  mutable std::optional<Foresight> foresight_;  // a queue that refuses many asks it for each
  uint64_t changes_ = 0;
  uint64_t previews_ = 0;  // previews that it gave
  uint64_t steps_ = 0;     // likewise
};

}  // namespace latentd::batching
