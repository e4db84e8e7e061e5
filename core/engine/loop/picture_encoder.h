// Turns finished pictures into files on threads of its own, and tells their requests. Waiting ones
// hold memory that counts as results (picture_bytes.h), as does the file of a video, in one thread
// of them all, as far as it has not been told.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/base/clock.h"
#include "core/base/threads/thread_watch.h"
#include "core/base/threads/worker.h"
#include "core/engine/loop/preview_encoder.h"
#include "core/engine/requests/engine_metrics.h"
#include "core/engine/requests/growing_video.h"
#include "core/engine/requests/job.h"
#include "core/engine/requests/picture_bytes.h"
#include "core/image/pixels/overlay.h"
#include "core/image/pixels/run_parts.h"
#include "core/pipeline/picture/run_graph.h"

namespace latentd::engine {

// Result of a finished picture: pixels, or latents or embeddings where those are wanted.
struct DrawnPicture {
  explicit DrawnPicture(pipeline::Picture& picture);
  // A frame of a video.
  explicit DrawnPicture(image::Image frame) : pixels(std::move(frame)) {}
  // The next frames of a video's file.
  explicit DrawnPicture(std::vector<image::Image> frames) : frames(std::move(frames)) {}
  // Without those of the overlay, which all images of a request share.
  size_t bytes() const;
  // As Job::frame_count.
  int count() const { return frames.empty() ? 1 : static_cast<int>(frames.size()); }

  image::Image pixels;
  std::shared_ptr<const image::Overlay> overlay;  // to be laid over them; null: none is
  device::Buffer latents;
  std::vector<pipeline::NamedBuffers> embeds;
  std::vector<image::Image> frames;
};

class PictureEncoder {
 public:
  // Turns the pixels of the job's picture with that index into a file. Called by all its threads,
  // of which those that have no picture of their own run parts of it.
  using Encode = std::function<absl::StatusOr<Image>(const Job& job, int index, uint64_t seed,
                                                     const image::Image& pixels,
                                                     const image::RunParts& run_parts)>;
  // Functions of the jobs' owner; called by the encoder's threads.
  struct Owner {
    std::function<bool(const Job& job)> is_wanted;
    std::function<void(Job& job, absl::Status status)> fail;
    std::function<void(Job& job)> complete;  // all its pictures are files
    PreviewEncoder::Warn warn = {};          // may be empty
  };

  // Its threads are of `watches`, which, as `metrics`, `clock` and what `owner` calls, must outlive
  // the encoder.
  PictureEncoder(int threads, Encode encode, Owner owner, std::shared_ptr<PictureBytes> bytes,
                 ThreadWatches& watches, EngineMetrics& metrics, const Clock& clock);
  ~PictureEncoder();

  // Not encoded if the job is not wanted any more when its turn comes; of a video's file, when a
  // frame's does.
  void Add(std::shared_ptr<Job> job, int index, uint64_t seed, DrawnPicture drawn)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The same of the video's frames from `first` on, for its file where the job wants one. REQUIRES:
  // those before were added.
  void AddFrames(const std::shared_ptr<Job>& job, int index, uint64_t seed,
                 std::vector<image::Image> frames, int first) ABSL_LOCKS_EXCLUDED(mutex_);

  // Frees what waits of the job before it returns. Asks for no memory.
  void Drop(const Job& job) ABSL_LOCKS_EXCLUDED(mutex_);

  PreviewEncoder& previews() { return previews_; }

 private:
  struct Encoder;

  // The file of a video. Its frames are added by one thread, so that they stay in order.
  struct Video {
    GrowingVideo file;
    Encoder& encoder;
    std::shared_ptr<const void> counted = nullptr;  // bytes that it holds
  };
  struct OpenVideo {
    const Job* job;
    int index;
    std::shared_ptr<Video> video;
  };

  struct Added {
    uint64_t id = 0;
    std::shared_ptr<Job> job;
    int index = 0;
    uint64_t seed = 0;
    int frame = 0;
    std::shared_ptr<Video> video = nullptr;  // null: it becomes a file of its own
    std::shared_ptr<const DrawnPicture> drawn;
    std::shared_ptr<const void> counted;          // as unencoded
    std::shared_ptr<const void> overlay_counted;  // once for all that share it
    std::shared_ptr<const void> at_encoder;       // in its bytes
  };

  // One of the threads.
  struct Encoder {
    explicit Encoder(ThreadWatch& watch) : watch(watch) {}

    ThreadWatch& watch;
    std::atomic<int64_t> bytes = 0;  // bytes of pictures that wait for it, or are in it
    Worker worker{"encoder"};        // the last: it uses the others
  };

  Encoder& LeastBusy() const;
  void Add(Encoder& encoder, Added added) ABSL_LOCKS_EXCLUDED(mutex_);
  std::shared_ptr<const void> CountOverlay(const image::Overlay* overlay)
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::shared_ptr<Video> VideoOf(const Job& job, int index, uint64_t seed)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing more comes for the file, or for any of the job's: `index` is nothing.
  void CloseVideos(const Job& job, std::optional<int> index) ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing if it has been dropped.
  std::optional<Added> Take(uint64_t id) ABSL_LOCKS_EXCLUDED(mutex_);
  void EncodePicture(Added added);
  absl::Status TryEncode(Added added);
  absl::StatusOr<Image> Encoded(const Added& added) const;
  // Before each frame of a video's file. CANCELLED: its job is not wanted any more.
  absl::Status BeginFrame(const Added& added) const;
  void RunParts(int count, absl::FunctionRef<void(int)> part) const;

  const Encode encode_;
  const Owner owner_;
  const std::shared_ptr<PictureBytes> bytes_;
  EngineMetrics& metrics_;
  const Clock& clock_;
  PreviewEncoder previews_;
  absl::Mutex mutex_;
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::list<Added> waiting_ ABSL_GUARDED_BY(mutex_);
  // Counts of the overlays of pictures that are here.
  absl::flat_hash_map<const image::Overlay*, std::weak_ptr<const void>> overlays_
      ABSL_GUARDED_BY(mutex_);
  std::list<OpenVideo> videos_ ABSL_GUARDED_BY(mutex_);  // frames of these are to come
  std::vector<std::unique_ptr<Encoder>> encoders_;  // the last: they use the others, and each other
};

}  // namespace latentd::engine
