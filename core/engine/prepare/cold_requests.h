// Requests that were admitted and whose graphs are not ready: holds what their images are made of
// while they wait, orders their graphs, one order a request, and begins them. Their needs are
// predicted before any of it is compiled, and what is refused leaves nothing behind.
//
// A request that finds no memory, but would if what others use were gone, waits until something of
// that is: a request that ended, or what an operator evicted or unpinned. It is tried again then.
//
// Init images are most of what is held, and go when a request is cancelled, not when its turn
// comes. Holds no more than what the queue admitted. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/compiler/graph_store.h"
#include "core/engine/loop/picture_loop.h"
#include "core/engine/models/bucket_graphs.h"
#include "core/engine/prepare/admission.h"
#include "core/engine/prepare/preparer.h"
#include "core/engine/requests/job.h"

namespace latentd::engine {

class ColdRequests {
 public:
  // All must outlive this, and the preparer have stopped before it goes.
  struct Parts {
    const Models& models;
    compiler::GraphStore& graphs;
    Admission& admission;
    PictureLoop& loop;
    Preparer& preparer;
    const Clock& clock;
    std::function<void()> changed;                  // called when graphs came or went
    std::function<void(const ModelBucket&)> begun;  // its images have begun
  };
  explicit ColdRequests(Parts parts) : parts_(std::move(parts)) {}

  // The loop has admitted the job, without images; they are made of its plan and `inputs`.
  // Where there is no memory it throws std::bad_alloc and holds nothing for it.
  void Add(const std::shared_ptr<Job>& job, pipeline::SharedInputs inputs)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Frees what is held for the request before it returns. OK for any handle.
  void Remove(uint64_t handle) ABSL_LOCKS_EXCLUDED(mutex_);

  // Removes all requests that have not begun, for another device's to add them.
  using Taken = std::vector<std::pair<std::shared_ptr<Job>, pipeline::SharedInputs>>;
  Taken TakeAll() ABSL_LOCKS_EXCLUDED(mutex_);

  // When the graphs of a request of that plan will be ready that comes now, behind those that are
  // here, in the clock's monotonic time; the infinite future where it is not known.
  absl::Time ReadyAt(const pipeline::Plan& plan) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Memory may have become free: requests that wait for it are tried again, by the preparing
  // thread. Waits for nothing; any thread, even with the loop's lock.
  void TryAgain();

 private:
  // Tries in a row that found no memory, though there is enough by what is counted: some may become
  // free after each of them, and else something else takes it.
  static constexpr int kMostVainTries = 8;

  struct Waiting {
    std::shared_ptr<Job> job;
    pipeline::SharedInputs inputs;
    bool lacks_memory = false;  // and is not ordered
    int vain_tries = 0;
  };

  void Submit(const std::shared_ptr<Job>& job);
  void SubmitAgain() ABSL_LOCKS_EXCLUDED(mutex_);
  // Jobs that are ordered, as they came.
  std::vector<std::shared_ptr<Job>> Ordered() const ABSL_LOCKS_EXCLUDED(mutex_);
  // When graphs are ready whose loading begins now.
  absl::Time TimeOf(const LoadTime& load) const;
  // Tells the loop when each of them will be ready.
  void Foresee() ABSL_LOCKS_EXCLUDED(mutex_);
  // True: one that found no memory is tried again. False: it cannot have any, or was removed.
  bool AwaitsMemory(Job& job) ABSL_LOCKS_EXCLUDED(mutex_);

  // Takes the request's inputs; nothing if the request was removed. It is no longer held then.
  std::optional<pipeline::SharedInputs> Take(uint64_t handle) ABSL_LOCKS_EXCLUDED(mutex_);

  // On the preparing thread. The graphs that the request needs, if there is room for them.
  absl::Status Order(const Job& job, Preparer::Order& order);
  // `taken`: the request is no longer held.
  absl::Status Begin(Job& job, const Preparer::Ended& ended, bool& taken);
  void Keep(const pipeline::Plan& plan, const GraphHandles& graphs);
  void OrderDispensable(const pipeline::SharedPlan& plan);
  void End(Job& job, Preparer::Ended ended);

  const Parts parts_;
  mutable absl::Mutex mutex_;
  std::map<uint64_t, Waiting> waiting_ ABSL_GUARDED_BY(mutex_);  // by handle: as they came
  std::atomic<int> departures_ = 0;   // times that memory may have become free
  std::atomic<int> lack_memory_ = 0;  // number of those that wait for it
};

}  // namespace latentd::engine
