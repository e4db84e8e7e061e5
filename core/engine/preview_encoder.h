// Turns what steps predict into small JPEGs for the requests that want previews, on a thread of its
// own, so that no picture waits for one. A preview is worth nothing once there is a newer one of
// its picture: one that waits gives way to it, so that a picture has one waiting at most. What
// waits counts as results (result_bytes.h), as do previews that a client has not read.
//
// Thread-safe but for Add.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "core/base/worker.h"
#include "core/engine/job.h"
#include "core/engine/result_bytes.h"
#include "core/engine/units_in_flight.h"
#include "core/pipeline/preview.h"

namespace latentd::engine {

class PreviewEncoder {
 public:
  // `is_wanted` is called by the encoder's thread, and must outlive the encoder.
  PreviewEncoder(const std::function<bool(const Job& job)>& is_wanted,
                 std::shared_ptr<ResultBytes> results)
      : is_wanted_(is_wanted), results_(std::move(results)) {}

  // Dropped where there is no memory for it, and if the job is not wanted any more when its turn
  // comes. For the loop's thread.
  void Add(const JobPicture& of, pipeline::Prediction prediction) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Waiting {
    JobPicture of;
    int total_steps = 0;
    pipeline::Size size;  // in latents
    pipeline::LatentColors colors;
    pipeline::Prediction prediction;
    std::shared_ptr<const void> counted;
  };

  absl::Status TryAdd(Waiting added) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Replaces(Waiting& added) ABSL_LOCKS_EXCLUDED(mutex_);
  void EncodeNext() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status TryEncode(const Waiting& next) const;

  const std::function<bool(const Job& job)>& is_wanted_;
  const std::shared_ptr<ResultBytes> results_;
  absl::Mutex mutex_;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Worker> worker_;  // from the first on; the last: it uses the others
};

}  // namespace latentd::engine
