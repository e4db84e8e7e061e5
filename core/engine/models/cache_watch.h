// Finds out what other processes do to the cache directory, every few seconds and on
// request. A disk that is slow, or one on a network that does not answer, holds up the thread that
// looks and no other: those that serve clients, are scraped or compile go by what the last
// look found. A metric says when that was.
//
// Thread-safe.
#pragma once

#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/threads/worker.h"
#include "core/metrics/registry.h"

namespace latentd::engine {

class CacheWatch {
 public:
  // From the beginning of a look to the next: one asks for the file of every graph that is known.
  static constexpr absl::Duration kPeriod = absl::Seconds(5);

  // All must outlive the watch.
  struct Parts {
    std::function<void()> look;     // asks the disk, for as long as that takes
    std::function<void()> changed;  // called after each look; both on the watch's thread
    const Clock& clock;
    metrics::Registry& registry;
  };
  explicit CacheWatch(Parts parts);

  // To be called every second or so; returns at once.
  void LookIfDue() ABSL_LOCKS_EXCLUDED(mutex_);

  // Requests a look, for a caller that has missed something. It begins after this, or is one that
  // waits already: one at a time does, however often this is called. Returns at once.
  void LookSoon() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Look() ABSL_LOCKS_EXCLUDED(mutex_);

  const Parts parts_;
  metrics::Gauge& last_look_;
  absl::Mutex mutex_;
  absl::Time next_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool waits_ ABSL_GUARDED_BY(mutex_) = false;  // a look that has not begun
  Worker thread_{"cache"};                      // last: its tasks use the others
};

}  // namespace latentd::engine
