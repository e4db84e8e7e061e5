#include "server/generation/kept_streams.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "core/base/errors/status_macros.h"

namespace latentd::server::generation {
namespace {

// The id is in the form that request_form.h asks for, and so short.
absl::Status Named(absl::Status status, absl::string_view reason, const std::string& request_id) {
  return WithFacts(WithReason(std::move(status), reason), {{"request_id", request_id}});
}

bool IsUnread(const KeptStream::Use& use) { return use.unread_since != absl::InfiniteFuture(); }

bool GivesWay(const KeptStream::Use& use) { return use.ended && (use.failed || use.was_read); }

}  // namespace

absl::StatusOr<std::shared_ptr<KeptStream>> KeptStreams::Open(const std::string& caller,
                                                              const std::string& request_id,
                                                              image::EncodeOptions output,
                                                              Results results) {
  auto stream = std::make_shared<KeptStream>(engine_, clock_, output);
  std::shared_ptr<KeptStream> gone;  // once nothing is locked
  absl::MutexLock lock(&mutex_);
  Place& place = places_[{caller, request_id, results}];
  if (place.stream != nullptr && !GivesWay(place.stream->use())) {
    return Named(absl::AlreadyExistsError(absl::StrCat("the resumable request ", request_id,
                                                       " is still there: it can be resumed, or "
                                                       "cancelled")),
                 "STREAM_EXISTS", request_id);
  }
  gone = std::exchange(place.before, std::exchange(place.stream, stream));
  return stream;
}

KeptStreams::Places::iterator KeptStreams::PlaceOf(const KeptStream& stream) {
  return std::find_if(places_.begin(), places_.end(),
                      [&](const auto& entry) { return entry.second.stream.get() == &stream; });
}

void KeptStreams::Accept(const KeptStream& stream) {
  std::shared_ptr<KeptStream> before;
  {
    absl::MutexLock lock(&mutex_);
    const auto place = PlaceOf(stream);
    if (place != places_.end()) before = std::exchange(place->second.before, nullptr);
  }
  if (before != nullptr) before->Drop();
  while (count() > kMostKeptStreams) {
    const auto oldest = TakeOldest(/*was_read=*/false);
    if (oldest == nullptr) return;  // the queue bounds those at work
    oldest->Drop();
  }
}

void KeptStreams::Refuse(const KeptStream& stream) {
  absl::MutexLock lock(&mutex_);
  const auto place = PlaceOf(stream);
  if (place == places_.end()) return;
  place->second.stream = std::exchange(place->second.before, nullptr);
  if (place->second.stream == nullptr) places_.erase(place);
}

absl::StatusOr<std::shared_ptr<KeptStream>> KeptStreams::Find(const std::string& caller,
                                                              const std::string& request_id,
                                                              Results results) const {
  absl::MutexLock lock(&mutex_);
  const auto found = places_.find({caller, request_id, results});
  if (found != places_.end()) return found->second.stream;
  return Named(absl::NotFoundError(absl::StrCat(
                   "this server keeps no stream of a request ", request_id,
                   " of this caller: it was not resumable, or nobody read it for a minute")),
               "NO_SUCH_STREAM", request_id);
}

absl::Status KeptStreams::Cancel(const std::string& caller, const std::string& request_id,
                                 Results results) {
  ASSIGN_OR_RETURN(const std::shared_ptr<KeptStream> stream, Find(caller, request_id, results));
  Drop(*stream);
  return absl::OkStatus();
}

void KeptStreams::Drop(KeptStream& stream) {
  {
    absl::MutexLock lock(&mutex_);
    const auto place = PlaceOf(stream);
    if (place != places_.end()) places_.erase(place);
  }
  stream.Drop();
}

void KeptStreams::DropOld() {
  const absl::Time now = clock_.Monotonic();
  DropIf([&](const KeptStream::Use& use) { return now - use.unread_since >= kKeepStreams; });
  while (read_bytes() > kMostReadBytes) {
    const auto oldest = TakeOldest(/*was_read=*/true);
    if (oldest == nullptr) return;
    oldest->Drop();
  }
}

void KeptStreams::MakeRoom(absl::Duration limit) {
  for (const auto& stream : Snapshot()) stream->ReleaseSent();
  const absl::Time now = clock_.Monotonic();
  DropIf([&](const KeptStream::Use& use) {
    const bool was_read = IsUnread(use) && use.ended && use.was_read;
    return was_read || now - use.oldest_picture >= limit;
  });
}

void KeptStreams::DropUnread() { DropIf(&IsUnread); }

std::vector<std::shared_ptr<KeptStream>> KeptStreams::Snapshot() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<KeptStream>> streams;
  for (const auto& [name, place] : places_) streams.push_back(place.stream);
  return streams;
}

void KeptStreams::DropIf(absl::FunctionRef<bool(const KeptStream::Use&)> leaves) {
  std::vector<std::shared_ptr<KeptStream>> leaving;
  {
    absl::MutexLock lock(&mutex_);
    for (auto entry = places_.begin(); entry != places_.end();) {
      const bool stays = !leaves(entry->second.stream->use());
      if (!stays) leaving.push_back(entry->second.stream);
      entry = stays ? std::next(entry) : places_.erase(entry);
    }
  }
  for (const auto& stream : leaving) stream->Drop();
}

std::shared_ptr<KeptStream> KeptStreams::TakeOldest(bool was_read) {
  absl::MutexLock lock(&mutex_);
  auto oldest = places_.end();
  absl::Time since = absl::InfiniteFuture();
  for (auto entry = places_.begin(); entry != places_.end(); ++entry) {
    const KeptStream::Use use = entry->second.stream->use();
    if (!use.ended || (was_read && !use.was_read) || use.unread_since >= since) continue;
    oldest = entry;
    since = use.unread_since;
  }
  if (oldest == places_.end()) return nullptr;
  std::shared_ptr<KeptStream> taken = std::move(oldest->second.stream);
  places_.erase(oldest);
  return taken;
}

size_t KeptStreams::count() const {
  absl::MutexLock lock(&mutex_);
  return places_.size();
}

int64_t KeptStreams::read_bytes() const {
  absl::MutexLock lock(&mutex_);
  int64_t bytes = 0;
  for (const auto& [name, place] : places_) {
    const KeptStream::Use use = place.stream->use();
    if (use.ended && use.was_read && IsUnread(use)) bytes += use.bytes;
  }
  return bytes;
}

int64_t KeptStreams::held_bytes() const {
  absl::MutexLock lock(&mutex_);
  int64_t bytes = 0;
  for (const auto& [name, place] : places_) {
    const KeptStream::Use use = place.stream->use();
    if (IsUnread(use)) bytes += use.bytes;
  }
  return bytes;
}

}  // namespace latentd::server::generation
