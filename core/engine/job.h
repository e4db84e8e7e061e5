// One request in flight: its pictures, where they stand, and the sink that hears of it.
//
// Publish may be called from any thread; everything else belongs to the engine's loop, or is
// guarded as it says.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/batching/unit.h"
#include "core/engine/engine.h"
#include "core/pipeline/picture.h"

namespace latentd::engine {

class Job {
 public:
  Job(uint64_t handle, GenerateSpec spec, std::shared_ptr<EventSink> sink,
      std::vector<std::unique_ptr<pipeline::Picture>> pictures, absl::Time submitted)
      : handle(handle),
        spec(std::move(spec)),
        submitted(submitted),
        pictures(std::move(pictures)),
        unfinished(static_cast<int>(this->pictures.size())),
        sink_(std::move(sink)) {}

  // Hands the event to the sink, one at a time and nothing after Completed or Failed. True iff this
  // event ended the job.
  bool Publish(Event event) ABSL_LOCKS_EXCLUDED(publishing_);

  // Holds back what others publish while this is alive, so that Queued is first.
  absl::Mutex& publishing() ABSL_LOCK_RETURNED(publishing_) { return publishing_; }
  bool PublishLocked(Event event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(publishing_);

  const uint64_t handle;
  const GenerateSpec spec;  // resolved
  const absl::Time submitted;
  std::vector<batching::PictureId> ids;  // of pictures, in order

  // The loop's.
  std::vector<std::unique_ptr<pipeline::Picture>> pictures;
  bool started = false;
  int dropped_tokens = 0;  // known once started

  // Written by the loop, then by the encoder once the loop has handed over the last picture.
  Timings timings;
  std::atomic<int> unfinished;  // pictures not yet encoded

 private:
  absl::Mutex publishing_;
  bool ended_ ABSL_GUARDED_BY(publishing_) = false;
  const std::shared_ptr<EventSink> sink_;
};

}  // namespace latentd::engine
