// The one thread that runs units of work: it asks the queue what is next, runs that unit of that
// picture, and tells the request's sink. A second thread encodes finished pictures meanwhile.
//
// Thread-safe. A job that it has admitted ends in Completed or Failed, exactly once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "core/base/clock.h"
#include "core/batching/queue.h"
#include "core/engine/engine_metrics.h"
#include "core/engine/job.h"
#include "core/engine/task_thread.h"

namespace latentd::engine {

class PictureLoop {
 public:
  // Both must outlive the loop.
  PictureLoop(int queue_capacity, EngineMetrics& metrics, const Clock& clock);
  // Cancels what still runs and waits for it.
  ~PictureLoop();

  uint64_t NextHandle() { return next_id_++; }

  // Takes the job, publishes Queued and runs its pictures; one without pictures takes its place in
  // the queue and waits for Begin. UNAVAILABLE: draining; RESOURCE_EXHAUSTED: the queue is full.
  // `image_bytes` is what the job holds while it waits.
  absl::Status Admit(const std::shared_ptr<Job>& job, size_t image_bytes)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The pictures of a job that was admitted without. Dropped if it has ended.
  void Begin(Job& job, std::vector<std::unique_ptr<pipeline::Picture>> pictures)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // REQUIRES: the caller keeps the job alive.
  void Fail(Job& job, absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether the job has not ended, nor been asked to.
  bool IsWanted(uint64_t handle) const ABSL_LOCKS_EXCLUDED(mutex_);

  void Cancel(uint64_t handle) ABSL_LOCKS_EXCLUDED(mutex_);

  // Admits nothing more; waits until what was admitted has ended or `deadline` (monotonic), then
  // cancels the rest: CANCELLED with reason DRAINING and a retry delay, since another server can
  // draw the same picture.
  void Drain(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_);

  // Of the pictures that have begun.
  int64_t state_bytes() const { return state_bytes_; }

 private:
  struct Place {
    std::shared_ptr<Job> job;
    int index = 0;
  };
  // Who is to stop, and what is said of it.
  struct Cancellation {
    uint64_t handle;
    absl::Status why;
  };
  struct Cancelled {
    std::shared_ptr<Job> job;
    absl::Status why;
  };

  absl::Status Enqueue(const std::shared_ptr<Job>& job, size_t image_bytes, int& position)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void RunLoop();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Cancelled> TakeCancelled() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void RunUnit(const Place& place);
  void Start(Job& job, absl::Time now);
  void Measure(const Place& place, Stage stage, int steps_before, absl::Duration duration);
  void Advance(const Place& place);
  void HandOver(const Place& place);
  void Encode(Job& job, int index, uint64_t seed, const image::Image& pixels);
  void Leave(const Job& job, batching::PictureId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The job has come to its end, which is about to be published.
  void Forget(const Job& job, const absl::Status& end) ABSL_LOCKS_EXCLUDED(mutex_);

  EngineMetrics& metrics_;
  const Clock& clock_;
  std::atomic<uint64_t> next_id_ = 1;  // of requests and pictures
  std::atomic<int64_t> state_bytes_ = 0;

  mutable absl::Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  batching::Queue queue_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, std::shared_ptr<Job>> jobs_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<batching::PictureId, Place> places_ ABSL_GUARDED_BY(mutex_);
  std::vector<Cancellation> cancelled_ ABSL_GUARDED_BY(mutex_);

  TaskThread encoder_{"encoder"};
  std::thread thread_;
};

}  // namespace latentd::engine
