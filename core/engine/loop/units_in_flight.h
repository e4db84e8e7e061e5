// Units of pictures that the loop has given to the device, in the order of one stream, at most one
// that runs and the next; and which of these pictures have rows of lanes.
//
// One thread, the loop's, but for what says so.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/threads/thread_watch.h"
#include "core/batching/predict/unit.h"
#include "core/device/device.h"
#include "core/engine/loop/enqueue_lead.h"
#include "core/engine/loop/unit_watchdog.h"
#include "core/engine/requests/engine_metrics.h"
#include "core/engine/requests/job.h"
#include "core/pipeline/units/lanes.h"
#include "core/pipeline/units/units.h"

namespace latentd::engine {

struct UnitInFlight {
  batching::Unit what;
  JobPictures pictures;  // by part of the unit
  Stage stage = Stage::kText;
  std::string model;  // by its name
  pipeline::PendingUnit unit;
  absl::Time enqueued;
  absl::Duration enqueuing;    // how long the host was at that, from when it was to begin
  UnitWatchdog::Unit watched;  // until the watchdog has it
};

// Rows that its time is measured for (batching::Queue::Measure): 0 if it did nothing, or less than
// another one of its kind would, or failed; or if it is the first split step of its graphs or of
// the helper's memory, which takes longer than those behind it.
int RowsToLearnFrom(const pipeline::PendingUnit& done);

// True if it had anything to do: text that a picture of the same request had encoded takes nothing.
bool HadWork(const pipeline::PendingUnit& done);

// True if the unit did something for that picture, and for none before it of the same job.
bool IsFirstOfJob(const UnitInFlight& done, size_t part);

// Progress to report to that picture's clients; the unit `worked` so long.
Progress ProgressOf(const UnitInFlight& done, size_t part, const Period& worked);

// Adds the part for one picture of a unit that has taken `duration` to the job's times and to the
// metrics.
void MeasurePart(const UnitInFlight& done, size_t part, absl::Duration duration, absl::Time now,
                 EngineMetrics& metrics);

// Adds it to the times of those of its jobs that are members, to each once, since pictures of
// one share the time, and to the metrics. A step that had no free rows adds nothing.
void MeasureJobs(const UnitInFlight& done, absl::Duration duration,
                 absl::FunctionRef<bool(const Job& job)> is_member, EngineMetrics& metrics);

// True if such a failure of a unit of that kind costs a preview, and nothing more.
bool IsLostPreview(batching::UnitKind kind, const absl::Status& failure);

// The device that helped with the unit, if it is that which has failed. It is not waited for: one
// that works may be at an event of the device that has failed for ever.
std::optional<size_t> FaultyHelper(const UnitInFlight& done);

class UnitsInFlight {
 public:
  struct Options {
    std::function<void(absl::string_view)> warn = {};  // may be empty
    pipeline::Lanes::AskRoom ask_lane_room = {};       // may be empty
    // The next unit is enqueued shortly before the device is done with the one that it is at, so
    // that who arrives until then goes before it; else as soon as there is one.
    bool enqueue_late = false;
  };
  // `loop` is the loop's. It, `device` and `clock` must outlive this.
  UnitsInFlight(Options options, device::Device& device, ThreadWatch& loop, const Clock& clock);

  bool empty() const { return units_.empty(); }
  bool full() const { return units_.size() == kMost; }
  // True if the device has finished the oldest. REQUIRES: there is one.
  bool IsOldestDone() const { return units_.front().unit.done->Reached(); }
  UnitInFlight& oldest() { return units_.front(); }
  const UnitInFlight& newest() const { return units_.back(); }

  // A device that is to help.
  struct Helper {
    const UnitsInFlight& units;
    absl::Status failed = {};  // set to why it does not, where that is a failure of its own
  };
  // Enqueues what the queue gave for `pictures`, and takes both only where this succeeds; a step
  // that could not be split has no helper any more. The errors of pipeline::EnqueueUnit; those of
  // its parts are in newest(). REQUIRES: not full.
  absl::Status Enqueue(batching::Unit& what, JobPictures& pictures, Helper* helper = nullptr);

  // When to enqueue the next one; never while full.
  absl::Time NextEnqueueTime() const;

  // Waits for the oldest, and says when the device was at it. Once for each.
  Period WaitForOldest();
  // Says that there was no memory for all rows of the unit, if so.
  void WarnOfRows(const UnitInFlight& unit) const;
  void DropOldest();

  // Gives back the rows of pictures whose job does not `stay`.
  void LeaveLanes(absl::FunctionRef<bool(const Job& job)> stays);

  // From any thread: of the lanes that pictures are in; whether the device has nothing to do; the
  // unit that hangs.
  int lanes() const { return lanes_.count(); }
  int64_t lane_bytes() const { return lanes_.bytes() + *helper_bytes_; }
  bool is_device_idle() const { return count_ == 0; }
  std::optional<OverdueUnit> Overdue() const { return watchdog_.Overdue(); }

 private:
  static constexpr size_t kMost = 2;

  absl::StatusOr<pipeline::PendingUnit> EnqueueUnit(const batching::Unit& what,
                                                    const JobPictures& pictures, Helper* helper);
  // The stream on which this device's rows are evaluated by another.
  absl::StatusOr<device::Stream*> StreamOn(int device, device::Device& helper);
  absl::Time BeginOfOldest() const;
  void LearnLead(absl::Time began);

  const Options options_;
  device::Device& device_;
  ThreadWatch& loop_;
  const Clock& clock_;
  UnitWatchdog watchdog_;
  pipeline::Lanes lanes_;
  std::vector<JobPicture> joined_;          // pictures that have rows, or had
  std::unique_ptr<device::Stream> stream_;  // from the first unit on
  // Streams of devices that help with units in flight.
  std::map<int, std::unique_ptr<device::Stream>> helpers_;
  // Memory for rows of others' steps.
  const std::shared_ptr<std::atomic<int64_t>> helper_bytes_ =
      std::make_shared<std::atomic<int64_t>>(0);
  std::vector<UnitInFlight> units_;
  std::atomic<int> count_ = 0;  // the size of units_
  absl::Time last_done_;        // when the unit that was done last was
  EnqueueLead lead_;
};

}  // namespace latentd::engine
