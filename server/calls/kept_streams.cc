#include "server/calls/kept_streams.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/error_facts.h"
#include "core/base/status_macros.h"

namespace latentd::server::calls {
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
                                                              image::EncodeOptions output) {
  while (count() >= kMostKeptStreams) {
    const auto oldest = TakeOldest(/*was_read=*/false);
    if (oldest == nullptr) break;  // the queue bounds those at work
    oldest->Drop();
  }
  auto stream = std::make_shared<KeptStream>(engine_, clock_, output);
  std::shared_ptr<KeptStream> before;
  {
    absl::MutexLock lock(&mutex_);
    std::shared_ptr<KeptStream>& place = streams_[{caller, request_id}];
    if (place != nullptr && !GivesWay(place->use())) {
      return Named(absl::AlreadyExistsError(absl::StrCat(
                       "the resumable request ", request_id,
                       " is still there: ResumeStream reads it, CancelGeneration ends it")),
                   "STREAM_EXISTS", request_id);
    }
    before = std::exchange(place, stream);
  }
  if (before != nullptr) before->Drop();
  return stream;
}

absl::StatusOr<std::shared_ptr<KeptStream>> KeptStreams::Find(const std::string& caller,
                                                              const std::string& request_id) const {
  absl::MutexLock lock(&mutex_);
  const auto found = streams_.find({caller, request_id});
  if (found != streams_.end()) return found->second;
  return Named(absl::NotFoundError(absl::StrCat(
                   "this server keeps no stream of a request ", request_id,
                   " of this caller: it was not resumable, or nobody read it for a minute")),
               "NO_SUCH_STREAM", request_id);
}

absl::Status KeptStreams::Cancel(const std::string& caller, const std::string& request_id) {
  ASSIGN_OR_RETURN(const std::shared_ptr<KeptStream> stream, Find(caller, request_id));
  Remove(*stream);
  stream->Drop();
  return absl::OkStatus();
}

void KeptStreams::Remove(const KeptStream& stream) {
  absl::MutexLock lock(&mutex_);
  std::erase_if(streams_, [&](const auto& entry) { return entry.second.get() == &stream; });
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
  const absl::Time now = clock_.Monotonic();
  DropIf([&](const KeptStream::Use& use) {
    return IsUnread(use) && ((use.ended && use.was_read) || now - use.oldest_picture >= limit);
  });
}

void KeptStreams::DropIf(absl::FunctionRef<bool(const KeptStream::Use&)> leaves) {
  std::vector<std::shared_ptr<KeptStream>> leaving;
  {
    absl::MutexLock lock(&mutex_);
    for (auto entry = streams_.begin(); entry != streams_.end();) {
      const bool stays = !leaves(entry->second->use());
      if (!stays) leaving.push_back(entry->second);
      entry = stays ? std::next(entry) : streams_.erase(entry);
    }
  }
  for (const auto& stream : leaving) stream->Drop();
}

std::shared_ptr<KeptStream> KeptStreams::TakeOldest(bool was_read) {
  absl::MutexLock lock(&mutex_);
  auto oldest = streams_.end();
  absl::Time since = absl::InfiniteFuture();
  for (auto entry = streams_.begin(); entry != streams_.end(); ++entry) {
    const KeptStream::Use use = entry->second->use();
    if (!use.ended || (was_read && !use.was_read) || use.unread_since >= since) continue;
    oldest = entry;
    since = use.unread_since;
  }
  if (oldest == streams_.end()) return nullptr;
  std::shared_ptr<KeptStream> taken = std::move(oldest->second);
  streams_.erase(oldest);
  return taken;
}

size_t KeptStreams::count() const {
  absl::MutexLock lock(&mutex_);
  return streams_.size();
}

int64_t KeptStreams::read_bytes() const {
  absl::MutexLock lock(&mutex_);
  int64_t bytes = 0;
  for (const auto& [name, stream] : streams_) {
    const KeptStream::Use use = stream->use();
    if (use.ended && use.was_read && IsUnread(use)) bytes += use.bytes;
  }
  return bytes;
}

int64_t KeptStreams::held_bytes() const {
  absl::MutexLock lock(&mutex_);
  int64_t bytes = 0;
  for (const auto& [name, stream] : streams_) {
    const KeptStream::Use use = stream->use();
    if (IsUnread(use)) bytes += use.bytes;
  }
  return bytes;
}

}  // namespace latentd::server::calls
