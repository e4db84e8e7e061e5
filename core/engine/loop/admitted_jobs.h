// The jobs that were admitted and have not ended, their pictures, and these pictures' places in the
// queue: all under one lock, so that a job is a member in all of it or in nothing. Any thread may
// end one; what a unit or the encoder brings for a picture that is gone is dropped.
//
// Thread-safe; what is said to be a loop's is called by the thread of its device alone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/threads/thread_watch.h"
#include "core/batching/predict/unit.h"
#include "core/batching/queue.h"
#include "core/engine/api/events.h"
#include "core/engine/requests/cancel_cause.h"
#include "core/engine/requests/engine_metrics.h"
#include "core/engine/requests/job.h"
#include "core/pipeline/picture/picture.h"

namespace latentd::engine {

class AdmittedJobs {
 public:
  struct Callbacks {
    // True if there is room for what further pictures leave behind them. Wake is to be called when
    // the answer changes. Called under the lock.
    std::function<bool()> may_begin;
    // A job has been cancelled of which nothing has begun, or which a device has begun that has
    // failed: its loop may be in the driver for ever. Called under the lock; does not fail.
    std::function<void(const std::shared_ptr<Job>& job, CancelCause cause)> end_early;
  };
  // A loop's next work: one of the three, or nothing.
  struct Work {
    std::shared_ptr<Job> cancelled;
    CancelCause cause = CancelCause::kNone;
    std::optional<batching::Unit> unit;
    JobPictures pictures;  // the pictures of the unit
    bool stop = false;
  };
  using Prospects = std::vector<std::pair<std::shared_ptr<Job>, Queued>>;

  // `metrics` and `clock` must outlive this.
  AdmittedJobs(batching::Limits limits, Callbacks callbacks, EngineMetrics& metrics,
               const Clock& clock);

  // Allocates a unique id, for a request or a picture.
  uint64_t NextHandle() { return next_id_++; }

  // Takes the job, or nothing of it, and says what it may expect. UNAVAILABLE: draining, or all
  // devices that could draw it have failed; the errors of batching::AdmissionControl. Where there
  // is no memory it throws std::bad_alloc.
  absl::Status Add(const std::shared_ptr<Job>& job, size_t input_bytes, Queued& queued)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The pictures of a job that was admitted without: those for its device, and for others that
  // could begin it. Dropped if it has ended, and those for a device that has failed.
  void Begin(Job& job, Job::Pictures pictures,
             std::vector<std::pair<size_t, Job::Pictures>> others = {}) ABSL_LOCKS_EXCLUDED(mutex_);

  // When a job that waits for Begin is foreseen to get it (batching::Need::ready); nothing if it
  // has ended or got it.
  void Foresee(Job& job, absl::Time ready) ABSL_LOCKS_EXCLUDED(mutex_);

  // The loop ends it then, or end_early does if nothing of it has begun or its device has failed.
  // The first cause counts. Needs no memory, so that it cannot fail.
  void Cancel(CancelCause cause, uint64_t handle) ABSL_LOCKS_EXCLUDED(mutex_);

  // Admits nothing more; waits until all have ended or `deadline` (monotonic), then cancels the
  // rest and waits for them.
  void Drain(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_);

  // The device has failed, and is given nothing more: cancels what it has begun, but for jobs of
  // which all is drawn, while devices are left. What waits goes to the other devices that could
  // draw it, and is cancelled where there are none; but a job without pictures that waits for this
  // device alone stays, for MoveTo or Remove. When no device is left, all is cancelled, and nothing
  // admitted.
  void Lose(size_t device = 0) ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsLost(size_t device) const { return (lost_ >> device & 1) != 0; }
  // The first device that has not failed; if all have, the number of devices.
  size_t first_device() const;
  // The job, which has no pictures, waits for another device alone; nothing if it has ended or got
  // them. False: it is not wanted, or that device has failed.
  bool MoveTo(size_t device, Job& job) ABSL_LOCKS_EXCLUDED(mutex_);
  // The error of what a failed device was to draw.
  absl::Status FaultError() const { return StatusOf(FaultCause()); }
  // Pictures that may be admitted and not finished.
  int places() const ABSL_LOCKS_EXCLUDED(mutex_);

  // The job has come to this end, which is counted (as RequestCounts::Ended), and which the caller
  // publishes. False: it had ended before.
  bool Remove(const Job& job, const absl::Status& end, const char* rejection = nullptr)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // True if it has not ended; for IsWanted, nor been asked to.
  bool Contains(const Job& job) const ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsWanted(const Job& job) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Backlog of the pictures that are foreseen on the device.
  batching::Backlog backlog(size_t device = 0) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Bytes that pictures hold that the device has begun.
  int64_t state_bytes(size_t device = 0) const { return state_bytes_[device]; }
  // True if pictures could run on the device, but none that has begun, while `holds`: asked under
  // the lock, so that no picture begins, or is given another unit, in between.
  bool WaitToBegin(absl::FunctionRef<bool()> holds, size_t device = 0) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // For the device's loop. The next work, cancellations first; no unit if not `may_enqueue`.
  // `idle`: there is nothing else to do, so it waits for work, or for news of it.
  Work Next(bool may_enqueue, bool idle, ThreadWatch& loop, size_t device = 0)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // For the device's loop. Waits until `until` (monotonic), or until a job is cancelled, or late.
  void AwaitCancellation(absl::Time until, ThreadWatch& loop, size_t device = 0)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Prospects of waiting requests whose places and times have changed since they were reported.
  Prospects ChangedProspects() ABSL_LOCKS_EXCLUDED(mutex_);
  // A unit of it is to be enqueued; nothing if it has ended.
  void Started(Job& job) ABSL_LOCKS_EXCLUDED(mutex_);
  // Sets the picture's next need.
  void Update(const JobPicture& picture) ABSL_LOCKS_EXCLUDED(mutex_);
  // The picture needs nothing more; its job is still one.
  void Remove(const JobPicture& picture) ABSL_LOCKS_EXCLUDED(mutex_);
  // As batching::Queue's.
  void Measure(const batching::Unit& unit, int computed_rows, absl::Duration took)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // So that the loop looks again.
  void Wake() ABSL_LOCKS_EXCLUDED(mutex_);
  // Once there is nothing to do Next says so.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Member {
    std::shared_ptr<Job> job;
    CancelCause cancelled = CancelCause::kNone;
    bool begun = false;            // a unit of it has been given to the loop
    batching::Prospect told = {};  // by the last Queued
  };
  using Deadlines = std::set<std::pair<absl::Time, uint64_t>>;

  void AwaitWork(ThreadWatch& loop, size_t device) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasWork(size_t device) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A cancelled job that has begun is ended by its device's loop, if end_early does not, another by
  // any.
  bool HasCancelled(size_t device) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return unbegun_cancelled_ > 0 || begun_cancelled_[device] > 0;
  }
  int& CountOf(const Member& cancelled) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first to pass.
  absl::Time NextDeadline() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CancelLate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CancelAll(CancelCause cause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Cancel(CancelCause cause, Member& member) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Work NextUnit(size_t device) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CancelCause FaultCause() const;
  // The device that has begun it has failed.
  void LoseBegun(CancelCause cause, Member& member) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The job waits for no device that has failed; false: none is left for it.
  bool LeaveLost(Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UpdateAll(const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemovePicture(const Job& job, batching::PictureId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Callbacks callbacks_;
  EngineMetrics& metrics_;
  const Clock& clock_;
  std::atomic<uint64_t> next_id_ = 1;
  std::vector<std::atomic<int64_t>> state_bytes_;  // by device
  std::atomic<uint64_t> lost_ = 0;  // by bits, those that have failed; set with the lock

  mutable absl::Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  batching::Queue queue_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, Member> jobs_ ABSL_GUARDED_BY(mutex_);
  // Deadlines of members that are not cancelled, with their handles.
  Deadlines deadlines_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<batching::PictureId, JobPicture> pictures_ ABSL_GUARDED_BY(mutex_);
  uint64_t changes_told_ ABSL_GUARDED_BY(mutex_) = 0;         // the queue's changes() at that time
  int unbegun_cancelled_ ABSL_GUARDED_BY(mutex_) = 0;         // members with a cause
  std::vector<int> begun_cancelled_ ABSL_GUARDED_BY(mutex_);  // the same by device
};

}  // namespace latentd::engine
