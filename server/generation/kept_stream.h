// The events of one resumable request, kept for its readers: the call of GenerateStream or
// GenerateVideo that asked for it, then calls of ResumeStream or ResumeVideo, one at a time. The
// work goes on without a reader. Frames of videos, and parts of their files, are pictures here.
//
// Pictures are kept by the pointer that their readers have, and count as unread (engine::Image)
// until it is dropped, though a reader has sent them; of everything else the newest of its kind is
// kept. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/engine/api/events.h"
#include "core/engine/engine.h"
#include "core/image/format.h"

namespace latentd::server::generation {

using SharedEvent = std::shared_ptr<const engine::Event>;

class KeptStream final : public engine::EventSink {
 public:
  // Gets one event at a time, and when it came (monotonic); null: there was no memory for it, and
  // none follows. Must not throw.
  using Reader = std::function<void(SharedEvent, absl::Time)>;

  // `output` is the request's. Both others outlive what the engine does for it.
  KeptStream(engine::Engine& engine, const Clock& clock, image::EncodeOptions output)
      : output(output), engine_(engine), clock_(clock) {}

  // From the engine.
  void OnEvent(engine::Event event) override ABSL_LOCKS_EXCLUDED(delivery_, mutex_);

  // By which the engine knows the request.
  void SetHandle(uint64_t handle) ABSL_LOCKS_EXCLUDED(mutex_);

  // `reader` gets what is kept, then what comes; the reader until now gets Failed, ABORTED. `call`
  // tells readers apart. `received` is how many pictures its client has: in place of those that
  // ReleaseSent released it gets an Image without bytes. NOT_FOUND, reason NO_SUCH_STREAM, and
  // nothing is told: the client has not got them all.
  absl::Status Attach(const void* call, int64_t received, std::shared_ptr<const Reader> reader)
      ABSL_LOCKS_EXCLUDED(delivery_, mutex_);
  // How many pictures the client has been sent whole, with those that it had. Nothing where another
  // reads by now.
  void NoteSent(const void* call, int64_t pictures) ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing where another reads by now. `to_the_end`: it was told all, the end too.
  void Detach(const void* call, bool to_the_end) ABSL_LOCKS_EXCLUDED(mutex_);

  // Releases the pictures that were sent, where memory is needed; the work goes on.
  void ReleaseSent() ABSL_LOCKS_EXCLUDED(mutex_);

  // Releases what is kept and stops the work; its reader is told how that ends: CANCELLED, reason
  // STREAM_DROPPED, as a rule.
  void Drop() ABSL_LOCKS_EXCLUDED(mutex_);

  struct Use {
    bool ended = false;
    bool failed = false;
    bool was_read = false;  // to the end
    // Time since when it has no reader; InfiniteFuture: it has one.
    absl::Time unread_since = absl::InfiniteFuture();
    absl::Time oldest_picture = absl::InfiniteFuture();  // arrival of the oldest kept picture
    int64_t bytes = 0;                                   // bytes of pictures
  };
  Use use() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Place of a client that has so many bytes of pictures: whole ones, and bytes of the next. Of
  // more bytes than have come, all pictures are whole.
  struct Place {
    int64_t pictures = 0;
    int64_t bytes = 0;
  };
  Place PlaceOf(int64_t bytes) const ABSL_LOCKS_EXCLUDED(mutex_);

  const image::EncodeOptions output;

 private:
  struct Kept {
    SharedEvent event;
    absl::Time came;
  };

  void Keep(SharedEvent event) ABSL_LOCKS_EXCLUDED(delivery_, mutex_);
  // The reader.
  std::shared_ptr<const Reader> Add(const Kept& kept) ABSL_LOCKS_EXCLUDED(mutex_);
  void Lose() ABSL_LOCKS_EXCLUDED(delivery_, mutex_);

  engine::Engine& engine_;
  const Clock& clock_;

  // Held while readers are told, so that what was kept comes before what comes. Before mutex_.
  absl::Mutex delivery_;
  mutable absl::Mutex mutex_;
  std::vector<Kept> events_ ABSL_GUARDED_BY(mutex_);
  std::vector<int64_t> sizes_ ABSL_GUARDED_BY(mutex_);  // bytes of all pictures that have come
  int64_t sent_ ABSL_GUARDED_BY(mutex_) = 0;            // pictures that the client has
  int64_t released_ ABSL_GUARDED_BY(mutex_) = 0;  // the number of these, from the first, released
  Use use_ ABSL_GUARDED_BY(mutex_);
  std::optional<uint64_t> handle_ ABSL_GUARDED_BY(mutex_);
  const void* call_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::shared_ptr<const Reader> reader_ ABSL_GUARDED_BY(mutex_);
  bool dropped_ ABSL_GUARDED_BY(mutex_) = false;
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace latentd::server::generation
