// Notices a thread that does not go on. The thread reports each activity, and when it waits for
// work; a probe of the process asks if one activity has lasted longer than a minute, as each that
// is watched takes a second at most.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/clock.h"

namespace latentd {

// A thread that has been at one thing for too long.
struct OverdueThread {
  absl::string_view name;      // a literal
  absl::string_view activity;  // likewise
  absl::Duration running;
  absl::Duration limit;
};

// Watches one thread, which reports its Activities. Any other thread may ask for an overdue
// activity, and never waits for the watched thread.
class ThreadWatch {
 public:
  static constexpr absl::Duration kLimit = absl::Minutes(1);
  // The thread waits for work, or is at what is watched otherwise.
  static constexpr const char* kIdle = nullptr;

  // An activity of the thread, as long as this is alive; afterwards the thread is back at the
  // activity before, which begins anew. Asks for no memory.
  class Activity {
   public:
    // REQUIRES: `what` is a literal, or kIdle.
    Activity(ThreadWatch& watch, const char* what) : watch_(watch), before_(watch.activity_) {
      watch_.Begin(what);
    }
    ~Activity() { watch_.Begin(before_); }
    Activity(const Activity&) = delete;

   private:
    ThreadWatch& watch_;
    const char* const before_;
  };

  // `name` is a literal. `clock` must outlive the watch.
  ThreadWatch(const char* name, const Clock& clock) : name_(name), clock_(clock) {}

  const char* name() const { return name_; }

  // Unset: the thread is idle, or has time left.
  std::optional<OverdueThread> Overdue() const;

 private:
  void Begin(const char* activity);

  const char* const name_;
  const Clock& clock_;
  // Written in this order and read in the other, so that no activity is taken for one that began
  // before it.
  std::atomic<int64_t> begin_ = 0;  // nanoseconds
  std::atomic<const char*> activity_ = kIdle;
};

// Watches of several threads, which may have one name. Thread-safe once all are added.
class ThreadWatches {
 public:
  // `clock` must outlive this.
  explicit ThreadWatches(const Clock& clock) : clock_(clock) {}

  // Lives as long as this.
  ThreadWatch& Add(const char* name) { return watches_.emplace_back(name, clock_); }

  const std::deque<ThreadWatch>& all() const { return watches_; }
  std::vector<OverdueThread> Overdue() const;

 private:
  const Clock& clock_;
  std::deque<ThreadWatch> watches_;
};

}  // namespace latentd
