// Notices a unit of work that does not end. The loop says when a unit begins and ends; the
// server's probes ask whether the one that runs is overdue.
//
// A unit is overdue when it has run for a minute and for ten times the longest that a unit of its
// stage, model, size and rows has taken in this process; the first of its kind has half an hour.
// One that was overdue and ends after all does not raise the limit.
//
// Thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/engine/api/events.h"
#include "core/engine/api/hangs.h"

namespace latentd::engine {

class UnitWatchdog {
 public:
  static constexpr int kTimesAsLong = 10;
  static constexpr absl::Duration kShortestLimit = absl::Minutes(1);
  static constexpr absl::Duration kFirstLimit = absl::Minutes(30);

  struct Unit {
    std::string request_id;
    int image_index = 0;
    Stage stage = Stage::kText;
    std::string model;
    pipeline::Size size;  // executed
    int rows = 1;         // rows of all its pictures, of text in the time of plain prompts;
                          // or frames of a decode
  };

  // `clock` must outlive the watchdog.
  explicit UnitWatchdog(const Clock& clock) : clock_(clock) {}

  // REQUIRES: units do not overlap.
  void Begin(Unit unit) ABSL_LOCKS_EXCLUDED(mutex_);
  void End() ABSL_LOCKS_EXCLUDED(mutex_);

  // Unset: no unit runs, or it has time left.
  std::optional<OverdueUnit> Overdue() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Sizes are the clients' choice; when it knows that many it forgets them.
  static constexpr size_t kMostKinds = 1000;

  using Kind = std::tuple<Stage, std::string, int, int, int, int>;
  static Kind KindOf(const Unit& unit) {
    return {unit.stage, unit.model, unit.size.width, unit.size.height, unit.size.frames, unit.rows};
  }
  using Durations = std::map<Kind, absl::Duration>;
  static void Note(const Kind& kind, absl::Duration took, Durations& longest);
  absl::Duration Limit() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  mutable absl::Mutex mutex_;
  std::optional<Unit> unit_ ABSL_GUARDED_BY(mutex_);  // the unit that runs
  absl::Time begin_ ABSL_GUARDED_BY(mutex_);
  Durations longest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::engine
