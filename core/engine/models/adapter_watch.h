// Looks every few seconds what has come into a folder of adapters, was edited there or has gone, on
// a thread of its own: a folder on a network that does not answer holds up no other. What is broken
// is told once.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/base/clock.h"
#include "core/base/threads/worker.h"

namespace latentd::engine {

class AdapterWatch {
 public:
  static constexpr absl::Duration kPeriod = absl::Seconds(5);
  // Bytes that are read for digests beside one look, so that the next is not late.
  static constexpr int64_t kBytesOfLook = int64_t{2} << 30;

  using Tell = std::function<void(absl::string_view)>;  // may be empty

  // All must outlive the watch.
  AdapterWatch(adapters::Catalogue& catalogue, const Clock& clock, Tell warn)
      : catalogue_(catalogue), clock_(clock), warn_(std::move(warn)) {}

  // Warns of adapters that are not served and were not told of before.
  void TellProblems() ABSL_LOCKS_EXCLUDED(mutex_);

  // To be called every second or so; returns at once.
  void LookIfDue() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Look() ABSL_LOCKS_EXCLUDED(mutex_);

  adapters::Catalogue& catalogue_;
  const Clock& clock_;
  const Tell warn_;
  absl::Mutex mutex_;
  absl::Time next_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool waits_ ABSL_GUARDED_BY(mutex_) = false;  // a look that has not ended
  std::set<std::string> told_ ABSL_GUARDED_BY(mutex_);
  Worker thread_{"adapters"};  // last: its tasks use the others
};

}  // namespace latentd::engine
