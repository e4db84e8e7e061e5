// The videos that were asked for over HTTP: those in work, and those that have ended, whose clients
// have not fetched, deleted or forgotten them. Each belongs to its caller
// (server/generation/caller.h); no other caller finds it. All of it is in memory, and gone with the
// process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "server/http/videos/video_job.h"

namespace latentd::server::http {

// Thread-safe.
class VideoJobs {
 public:
  struct Limits {
    // Bytes of files: of a hundred animated WebP of 25 frames of 1024x576, or six uncompressed
    // ones. What is in work is never dropped for it; a file that is larger by itself fails.
    int64_t bytes = int64_t{256} << 20;
    // How long a video that has ended is kept: OpenAI's clients poll every second, and people fetch
    // what they made within an hour.
    absl::Duration time = absl::Hours(1);
    size_t ended = 1000;  // videos that have ended
  };

  explicit VideoJobs(const Clock& clock) : VideoJobs(clock, Limits()) {}
  VideoJobs(const Clock& clock, Limits limits) : clock_(clock), limits_(limits) {}

  // RESOURCE_EXHAUSTED, reason TOO_MANY_VIDEOS, where files of videos in work, or that are being
  // fetched though they are no longer kept, fill all of the memory.
  absl::Status CheckRoom() ABSL_LOCKS_EXCLUDED(mutex_);

  void Add(const std::string& caller, std::shared_ptr<VideoJob> job) ABSL_LOCKS_EXCLUDED(mutex_);

  // Both: NOT_FOUND, reason NO_SUCH_VIDEO.
  absl::StatusOr<std::shared_ptr<VideoJob>> Find(const std::string& caller,
                                                 absl::string_view id) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Its work ends, and nothing of it is kept.
  absl::Status Delete(const std::string& caller, absl::string_view id) ABSL_LOCKS_EXCLUDED(mutex_);

  // The caller's, oldest first.
  std::vector<std::shared_ptr<VideoJob>> Of(const std::string& caller) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Drops what ended long ago, and of what is too much what ended first. To be called before the
  // others, and every second or so.
  void DropOld() ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends all work: the server stops.
  void EndAll() ABSL_LOCKS_EXCLUDED(mutex_);

  // Bytes of files, with those that are being fetched and are no longer kept.
  int64_t held_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

  const Limits& limits() const { return limits_; }

 private:
  struct Entry {
    std::string caller;
    std::shared_ptr<VideoJob> job;
  };
  using Entries = std::vector<Entry>;

  Entries::const_iterator Look(const std::string& caller, absl::string_view id) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // The one that ended first; end(): none has ended.
  Entries::const_iterator Oldest() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<VideoJob> Take(Entries::const_iterator entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropUntil(int64_t most_bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsTooMuch(int64_t most_bytes) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  const Limits limits_;
  mutable absl::Mutex mutex_;  // before that of a job
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  // Files that may be on their way to clients.
  std::vector<std::weak_ptr<const std::string>> dropped_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::server::http
