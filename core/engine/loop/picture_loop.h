// A PictureLoop runs units of work, with a thread for each device: it asks the queue what is next,
// enqueues that unit of those pictures on its device, and tells the requests' sinks once the unit
// is done. A request waits for every device that could draw it, and is drawn by the one that takes
// its first unit.
//
// While a device works on one unit the next one is enqueued; there are never more than two. Behind
// a step or a decode of a device that works beside the host that is late, shortly before the device
// needs it (enqueue_lead.h): until then the loop hears of requests, which go before what is not
// enqueued, and of cancellations. Once nothing can be enqueued it waits for the unit, and hears of
// both when that is done. Other threads encode finished pictures meanwhile.
//
// The choice of pictures and of the next work is admitted_jobs.h's. Units that the device has hold
// their job until they are done, ended or not.
//
// Pictures hold memory of the host until they are encoded and read, and their requests before that,
// within one budget (picture_bytes.h). While it is full no further picture begins: the loop waits,
// and requests with it. A client that reads slowly can make all others wait: the server cancels
// calls whose pictures have waited for the read timeout (--stall-timeout, a minute) while the loop
// waits, and pictures that are read at once never hold up others. Encoding waits for none; while
// as many pictures wait for it as may wait in the queue, none begins either.
//
// Thread-safe. A job that it has admitted ends in Completed or Failed, exactly once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/threads/thread_watch.h"
#include "core/base/threads/worker.h"
#include "core/batching/queue.h"
#include "core/device/device.h"
#include "core/engine/loop/admitted_jobs.h"
#include "core/engine/loop/picture_encoder.h"
#include "core/engine/loop/units_in_flight.h"
#include "core/engine/requests/cancel_cause.h"
#include "core/engine/requests/engine_metrics.h"
#include "core/engine/requests/job.h"
#include "core/engine/requests/picture_bytes.h"
#include "core/engine/requests/picture_file.h"

namespace latentd::engine {

class PictureLoop {
 public:
  struct Options {
    batching::Limits queue = {};                 // its bytes are those of the budget
    int64_t picture_bytes = int64_t{512} << 20;  // the budget (picture_bytes.h)
    PictureEncoder::Encode encode = EncodeImage;
    int encoders = 1;  // threads that encode
    UnitsInFlight::Options units = {};
    // Each thread of a device begins with it, before the loop has been made. May be empty.
    std::function<void()> begin_thread = {};
    // Told by ReportFault, before anything ends. May be empty.
    std::function<void(const absl::Status& fault, size_t device)> on_device_fault = {};
  };
  struct Device {
    device::Device& device;  // pictures' graphs run on it
    UnitsInFlight::Options units;
    std::string label = {};  // its name in Progress
  };

  // The devices, `metrics` and `clock` must outlive the loop. Options::units are for the encoder.
  PictureLoop(Options options, const std::vector<Device>& devices, EngineMetrics& metrics,
              const Clock& clock);
  // A loop of one device.
  PictureLoop(Options options, device::Device& device, EngineMetrics& metrics, const Clock& clock)
      : PictureLoop(options, {{device, options.units}}, metrics, clock) {}
  // Cancels what still runs and waits for it.
  ~PictureLoop();

  uint64_t NextHandle() { return jobs_.NextHandle(); }

  // Takes the job, publishes Queued and runs its pictures; one without pictures takes its place in
  // the queue and waits for Begin. UNAVAILABLE: draining, or all devices that could draw it have
  // failed; the errors of batching::AdmissionControl. Where there is no memory it throws
  // std::bad_alloc and has not taken it. `input_bytes` are those of its init image or latents.
  absl::Status Admit(const std::shared_ptr<Job>& job, size_t input_bytes);

  // The most bytes that a request may bring; and the same inputs, counted for as long as they are
  // held.
  int64_t most_input_bytes() const { return bytes_->most_inputs(); }
  pipeline::SharedInputs Count(pipeline::SharedInputs inputs);

  // The pictures of a job that was admitted without. Dropped if it has ended.
  void Begin(Job& job, Job::Pictures pictures,
             std::vector<std::pair<size_t, Job::Pictures>> others = {}) {
    jobs_.Begin(job, std::move(pictures), std::move(others));
  }
  // When such a job is foreseen to get them; the infinite future: it is not known.
  void Foresee(Job& job, absl::Time ready) { jobs_.Foresee(job, ready); }
  // Ends a job that waits for Begin. Counts as refused after all where its size is the reason,
  // which no memory or no permission to compile is there for; nothing if it has ended. REQUIRES:
  // the caller keeps it alive.
  void Reject(Job& job, absl::Status status);

  // True if the job has not ended, nor been asked to.
  bool IsWanted(const Job& job) const { return jobs_.IsWanted(job); }

  // Ends at once if nothing of it has begun, else at the latest when the unit that its device is at
  // is done: no further one is enqueued, and what waits for the encoder is not encoded. Its end is
  // told by another thread. Needs no memory, so that it cannot fail.
  void Cancel(uint64_t handle) { jobs_.Cancel(CancelCause::kClient, handle); }
  // The same: there is no memory to go on with it.
  void Abandon(uint64_t handle) { jobs_.Cancel(CancelCause::kOutOfMemory, handle); }

  // Admits nothing more; waits until what was admitted has ended or `deadline` (monotonic), then
  // cancels the rest: CANCELLED with reason DRAINING and a retry delay, since another server can
  // draw the same picture.
  void Drain(absl::Time deadline) { jobs_.Drain(deadline); }

  // The device has failed (core/device/device_fault.h): nothing more is enqueued on it, and what it
  // has begun ends with DeviceLostError; requests that wait go to the others. One that waits for
  // Begin, with pictures of this device alone, is the caller's to move or reject. Once no device is
  // left, admits nothing more and ends everything, with DeviceFaultError. Does not wait; any
  // thread, as often as it is found out.
  void ReportFault(const absl::Status& fault, size_t device);
  // The same, of one that is told of already.
  void Lose(size_t device) { jobs_.Lose(device); }
  // The error of what a failed device was to draw.
  absl::Status FaultError() const { return jobs_.FaultError(); }
  // A job that waits for Begin waits for another device's. False: it is not wanted.
  bool MoveTo(size_t device, Job& job) { return jobs_.MoveTo(device, job); }
  // The first device that has not failed; if all have, the number of devices.
  size_t first_device() const { return jobs_.first_device(); }

  // Bytes of the pictures that the device has begun, and of the lanes that they are in.
  int64_t state_bytes(size_t device = 0) const {
    return jobs_.state_bytes(device) + lane_bytes(device);
  }
  int lanes(size_t device = 0) const { return loops_[device]->units.lanes(); }
  int64_t lane_bytes(size_t device = 0) const { return loops_[device]->units.lane_bytes(); }

  // Bytes of finished pictures that wait to be encoded or read; and those that CountInput counts.
  int64_t result_bytes() const { return bytes_->results(); }
  int64_t input_bytes() const { return bytes_->inputs(); }

  // Pictures that the devices that are left take together.
  int queue_capacity() const { return jobs_.places(); }
  // Backlog of the pictures that are foreseen on the device.
  batching::Backlog backlog(size_t device = 0) const { return jobs_.backlog(device); }

  // As the engine's.
  bool WaitsForReaders() const;
  Hangs FindHangs() const;

  // Its own and its encoders'.
  const ThreadWatches& threads() const { return watches_; }

 private:
  using Work = AdmittedJobs::Work;
  // Loop of one device.
  struct DeviceLoop {
    const size_t device;
    const std::string label;
    ThreadWatch& watch;
    UnitsInFlight units;  // the thread's own
    absl::Notification began = {};
    std::thread thread = {};
  };

  AdmittedJobs::Callbacks CallbacksOfJobs();
  bool MayBegin() const;
  // The device has failed, and others have not: its thread may be in its driver for ever.
  bool IsRetired(size_t device) const;
  bool IsOfRetired(const ThreadWatch& watch) const;
  // By another thread: the loop may be at a unit for long, and the canceller may hold what the sink
  // waits for.
  void EndEarly(const std::shared_ptr<Job>& job, CancelCause cause);

  void RunLoop(DeviceLoop& loop);
  // False: there is nothing more to come.
  bool TakeTurn(DeviceLoop& loop);
  void TellWaiting() ABSL_LOCKS_EXCLUDED(telling_);
  void EndCancelled(DeviceLoop& loop, Job& job, CancelCause cause);
  void Enqueue(DeviceLoop& loop, Work work);
  absl::Status TryEnqueue(DeviceLoop& loop, Work& work);
  // Tells the queue what the pictures of the unit need next that was enqueued last, and fails those
  // of which it could not be enqueued.
  void AdvanceAll(DeviceLoop& loop);
  void CompleteOldest(DeviceLoop& loop);
  // Pictures that need no further unit are `finished`.
  absl::Status TryComplete(UnitInFlight& done, size_t part, const Period& worked,
                           JobPictures& finished);
  // A unit that was to draw this has failed, which ends nothing else.
  void LosePreview(const JobPicture& of, pipeline::Prediction prediction,
                   const absl::Status& failure);
  void Start(Job& job, absl::Time now);
  void MeasureUnit(const UnitInFlight& done, absl::Duration duration);
  void HandOver(const JobPicture& picture);
  // The frames of a video that were decoded last.
  void HandOverFrames(const JobPicture& of, uint64_t seed, pipeline::VideoState& video);
  void Complete(Job& job);
  // Nothing if the job has ended.
  void Fail(Job& job, absl::Status status);
  // For what came of a unit of the job's: a device, where it has failed; the job's own, or the one
  // that helped.
  void FailForUnit(Job& job, absl::Status status, std::optional<size_t> helper = std::nullopt);

  const Options options_;
  EngineMetrics& metrics_;
  const Clock& clock_;
  ThreadWatches watches_;
  ThreadWatch& ending_watch_;
  const std::shared_ptr<PictureBytes> bytes_;
  AdmittedJobs jobs_;
  std::vector<std::unique_ptr<DeviceLoop>> loops_;  // by device
  PictureEncoder encoder_;
  Worker ending_;  // jobs that were cancelled before they began
  absl::Mutex
      telling_;  // held while waiting requests hear of changes, so that the newest comes last
};

}  // namespace latentd::engine
