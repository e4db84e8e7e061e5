// The resumable requests: those in progress, and finished ones whose pictures a client may still
// come back for. Each belongs to its caller (caller.h); no other caller finds it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/engine/engine.h"
#include "core/image/format.h"
#include "server/generation/conversion/field_limits.h"
#include "server/generation/kept_stream.h"

namespace latentd::server::generation {

// Time that a stream without a reader is kept.
inline constexpr absl::Duration kKeepStreams = absl::Minutes(1);
// Limit of streams that have ended: beyond it the oldest are dropped before.
inline constexpr size_t kMostKeptStreams = 256;
// Bytes of streams that were read to the end, at most, as far as the server can know.
inline constexpr int64_t kMostReadBytes = int64_t{64} << 20;

// Thread-safe. Both outlive it and the work of its streams.
class KeptStreams {
 public:
  KeptStreams(engine::Engine& engine, const Clock& clock) : engine_(engine), clock_(clock) {}

  // For the engine to accept or refuse. ALREADY_EXISTS, reason STREAM_EXISTS: the caller has a
  // stream of that name and of such results that is at work, or has pictures that were not read.
  // One that failed or was read gives way.
  absl::StatusOr<std::shared_ptr<KeptStream>> Open(const std::string& caller,
                                                   const std::string& request_id,
                                                   image::EncodeOptions output,
                                                   Results results = Results::kPictures)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The engine has accepted it: what gave way to it is dropped, and the oldest of too many.
  void Accept(const KeptStream& stream) ABSL_LOCKS_EXCLUDED(mutex_);
  // The engine has refused it: what gave way is back.
  void Refuse(const KeptStream& stream) ABSL_LOCKS_EXCLUDED(mutex_);

  // NOT_FOUND, reason NO_SUCH_STREAM: there is none of such results.
  absl::StatusOr<std::shared_ptr<KeptStream>> Find(const std::string& caller,
                                                   const std::string& request_id,
                                                   Results results = Results::kPictures) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Its work stops and nothing of it is kept. NOT_FOUND as Find.
  absl::Status Cancel(const std::string& caller, const std::string& request_id,
                      Results results = Results::kPictures) ABSL_LOCKS_EXCLUDED(mutex_);

  // The same of one that was found.
  void Drop(KeptStream& stream) ABSL_LOCKS_EXCLUDED(mutex_);

  // Drops streams that no client has resumed in time. To be called every second or so.
  void DropOld() ABSL_LOCKS_EXCLUDED(mutex_);
  // While others wait for the memory: lets go of the pictures that were sent, and drops what was
  // read to the end, and what has held a picture for `limit` all the same, read or not.
  void MakeRoom(absl::Duration limit) ABSL_LOCKS_EXCLUDED(mutex_);
  // Drops streams without a reader: no client has to come back to a server that stops.
  void DropUnread() ABSL_LOCKS_EXCLUDED(mutex_);

  // Bytes of pictures in streams without a reader.
  int64_t held_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Caller, request_id and results: each kind of results has calls of its own.
  using Name = std::tuple<std::string, std::string, Results>;
  struct Place {
    std::shared_ptr<KeptStream> stream;
    std::shared_ptr<KeptStream> before;  // gives way, until the engine has accepted `stream`
  };
  using Places = std::map<Name, Place>;

  Places::iterator PlaceOf(const KeptStream& stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Streams are used outside of the lock, because what they let go of may take other locks.
  std::vector<std::shared_ptr<KeptStream>> Snapshot() const ABSL_LOCKS_EXCLUDED(mutex_);
  void DropIf(absl::FunctionRef<bool(const KeptStream::Use&)> leaves) ABSL_LOCKS_EXCLUDED(mutex_);
  // The longest unread of those that have ended; null: there is none.
  std::shared_ptr<KeptStream> TakeOldest(bool was_read) ABSL_LOCKS_EXCLUDED(mutex_);
  size_t count() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t read_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

  engine::Engine& engine_;
  const Clock& clock_;
  mutable absl::Mutex mutex_;  // before that of a stream
  Places places_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::server::generation
