// Turns what steps predict into small JPEGs, or of videos into small animated WebPs, for the
// requests that want previews, on a thread of its own, so that no picture waits for one. A preview
// is worth nothing once there is a newer one of its picture: one that waits gives way to it, so
// that a picture has one waiting at most. What waits counts as results (picture_bytes.h), as do
// previews that a client has not read.
//
// Previews that a tiny VAE decodes first are left to the picture, for a unit of its own. Where that
// fails, the request goes on with previews in colours.
//
// Thread-safe but for what is for the loop's thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/base/threads/thread_watch.h"
#include "core/base/threads/worker.h"
#include "core/engine/loop/units_in_flight.h"
#include "core/engine/requests/job.h"
#include "core/engine/requests/picture_bytes.h"

namespace latentd::engine {

class PreviewEncoder {
 public:
  using Warn = std::function<void(absl::string_view)>;

  // `is_wanted` is called by the encoder's thread, whose watch `watch` is. Both must outlive the
  // encoder. `warn` may be empty.
  PreviewEncoder(const std::function<bool(const Job& job)>& is_wanted,
                 std::shared_ptr<PictureBytes> bytes, ThreadWatch& watch, Warn warn = {})
      : is_wanted_(is_wanted), bytes_(std::move(bytes)), watch_(watch), warn_(std::move(warn)) {}

  // Dropped where there is no memory for it, and if the job is not wanted any more when its turn
  // comes. Where a unit is needed first, the picture has_preview() now, unless it has no steps left
  // to show. For the loop's thread.
  void Add(const JobPicture& of, pipeline::Prediction prediction) ABSL_LOCKS_EXCLUDED(mutex_);

  // A unit that was to draw this has failed: adds it in colours. The first time it says so. For the
  // loop's thread.
  void AddFailed(const JobPicture& of, pipeline::Prediction prediction, const absl::Status& failure)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Waiting {
    JobPicture of;
    int total_steps = 0;
    pipeline::Size size;            // size of the picture
    pipeline::Size latents;         // likewise
    pipeline::LatentColors colors;  // used unless a tiny VAE has decoded it
    std::optional<int> fps;         // frames a second of a video; nothing: it is a picture
    pipeline::Prediction prediction;
    std::shared_ptr<const void> counted;
  };

  void TryAdd(Waiting added) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Replaces(Waiting& added) ABSL_LOCKS_EXCLUDED(mutex_);
  void EncodeNext() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Encode(const Waiting& next) const;

  const std::function<bool(const Job& job)>& is_wanted_;
  const std::shared_ptr<PictureBytes> bytes_;
  ThreadWatch& watch_;
  const Warn warn_;
  bool has_warned_ = false;  // the loop's
  absl::Mutex mutex_;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  Worker worker_{"previews"};  // the last: it uses the others
};

}  // namespace latentd::engine
