#include "server/generation/kept_stream.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/base/errors/error_details.h"
#include "core/base/errors/out_of_memory.h"

namespace latentd::server::generation {
namespace {

absl::Status TakenOver() {
  return WithReason(absl::AbortedError("another call that resumes it reads this stream now"),
                    "TAKEN_OVER");
}

absl::Status NoSuchStream(absl::string_view message) {
  return WithReason(absl::NotFoundError(message), "NO_SUCH_STREAM");
}

// Tells a reader that the connection has not merely broken.
absl::Status StreamDropped() {
  return WithReason(absl::CancelledError("the request was cancelled, or its pictures were not read "
                                         "while others waited for the memory"),
                    "STREAM_DROPPED");
}

// In place of a picture that was released: its reader has it already.
const SharedEvent& ReleasedPicture() {
  static const SharedEvent& picture =
      *new SharedEvent(std::make_shared<const engine::Event>(engine::Image()));
  return picture;
}

bool IsEnd(const engine::Event& event) {
  return std::holds_alternative<engine::Completed>(event) ||
         std::holds_alternative<engine::Failed>(event);
}

}  // namespace

void KeptStream::OnEvent(engine::Event event) {
  bool is_dropped = false;
  {
    absl::MutexLock lock(&mutex_);
    use_.ended = use_.ended || IsEnd(event);
    use_.failed = use_.failed || std::holds_alternative<engine::Failed>(event);
    is_dropped = dropped_;
  }
  const absl::Status kept = CatchOutOfMemory([&] {
    auto* failed = std::get_if<engine::Failed>(&event);
    const bool by_drop = is_dropped && failed != nullptr && absl::IsCancelled(failed->status);
    if (by_drop && GetReason(failed->status).empty()) failed->status = StreamDropped();
    Keep(std::make_shared<const engine::Event>(std::move(event)));
  });
  if (!kept.ok()) Lose();
}

void KeptStream::Keep(SharedEvent event) {
  absl::MutexLock delivery(&delivery_);
  const absl::Time now = clock_.Monotonic();
  const std::shared_ptr<const Reader> reader = Add({event, now});
  if (reader != nullptr) (*reader)(std::move(event), now);
}

std::shared_ptr<const KeptStream::Reader> KeptStream::Add(const Kept& kept) {
  absl::MutexLock lock(&mutex_);
  if (dropped_) return reader_;
  if (const auto* image = std::get_if<engine::Image>(kept.event.get())) {
    sizes_.push_back(static_cast<int64_t>(image->bytes.size()));
    use_.bytes += sizes_.back();
    use_.oldest_picture = std::min(use_.oldest_picture, kept.came);
    // Drops its previews: a client that resumes gets the picture itself.
    std::erase_if(events_, [&](const Kept& older) {
      const auto* preview = std::get_if<engine::Preview>(older.event.get());
      return preview != nullptr && preview->image_index == image->index;
    });
  } else {
    std::erase_if(events_,
                  [&](const Kept& older) { return older.event->index() == kept.event->index(); });
  }
  events_.push_back(kept);
  return reader_;
}

void KeptStream::Lose() {
  {
    absl::MutexLock delivery(&delivery_);
    std::shared_ptr<const Reader> reader;
    {
      absl::MutexLock lock(&mutex_);
      lost_ = true;
      use_.failed = true;
      reader = reader_;
    }
    if (reader != nullptr) (*reader)(nullptr, clock_.Monotonic());
  }
  Drop();
}

void KeptStream::SetHandle(uint64_t handle) {
  {
    absl::MutexLock lock(&mutex_);
    handle_ = handle;
    if (!dropped_) return;
  }
  engine_.Cancel(handle);
}

absl::Status KeptStream::Attach(const void* call, int64_t received,
                                std::shared_ptr<const Reader> reader) {
  const auto taken_over = std::make_shared<const engine::Event>(engine::Failed{TakenOver()});
  absl::MutexLock delivery(&delivery_);
  std::vector<Kept> events;
  std::shared_ptr<const Reader> before;
  bool lost = false, is_over = false;
  {
    absl::MutexLock lock(&mutex_);
    if (received < released_) {
      return NoSuchStream("pictures of this stream that its caller has not got have been dropped");
    }
    events = events_;
    lost = lost_;
    is_over = dropped_ && use_.ended;
    before = std::exchange(reader_, reader);
    call_ = call;
    sent_ = received;
    use_.unread_since = absl::InfiniteFuture();
  }
  const absl::Time now = clock_.Monotonic();
  if (before != nullptr) (*before)(taken_over, now);
  for (Kept& kept : events) (*reader)(std::move(kept.event), kept.came);
  if (lost) {
    (*reader)(nullptr, now);
  } else if (is_over) {
    const engine::Failed dropped = {NoSuchStream("what was kept of this stream has been dropped")};
    (*reader)(std::make_shared<const engine::Event>(dropped), now);
  }
  return absl::OkStatus();
}

void KeptStream::NoteSent(const void* call, int64_t pictures) {
  absl::MutexLock lock(&mutex_);
  if (call_ == call) sent_ = pictures;
}

void KeptStream::Detach(const void* call, bool to_the_end) {
  std::shared_ptr<const Reader> reader;  // gone once nothing is locked
  absl::MutexLock lock(&mutex_);
  if (call_ != call) return;
  call_ = nullptr;
  reader = std::exchange(reader_, nullptr);
  use_.unread_since = clock_.Monotonic();
  use_.was_read = use_.was_read || to_the_end;
}

void KeptStream::ReleaseSent() {
  std::vector<SharedEvent> released;  // gone once nothing is locked
  absl::MutexLock lock(&mutex_);
  use_.oldest_picture = absl::InfiniteFuture();
  int64_t number = 0;
  for (Kept& kept : events_) {
    const auto* image = std::get_if<engine::Image>(kept.event.get());
    if (image == nullptr || ++number <= released_) continue;
    if (number > sent_) {
      use_.oldest_picture = kept.came;
      return;
    }
    ++released_;
    use_.bytes -= static_cast<int64_t>(image->bytes.size());
    released.push_back(std::exchange(kept.event, ReleasedPicture()));
  }
}

void KeptStream::Drop() {
  std::vector<Kept> events;  // gone once nothing is locked
  std::optional<uint64_t> handle;
  {
    absl::MutexLock lock(&mutex_);
    dropped_ = true;
    events.swap(events_);
    use_.bytes = 0;
    use_.oldest_picture = absl::InfiniteFuture();
    if (!use_.ended) handle = handle_;
  }
  if (handle) engine_.Cancel(*handle);
}

KeptStream::Place KeptStream::PlaceOf(int64_t bytes) const {
  absl::MutexLock lock(&mutex_);
  Place place{0, bytes};
  for (const int64_t size : sizes_) {
    if (place.bytes < size) return place;
    ++place.pictures;
    place.bytes -= size;
  }
  return {place.pictures, 0};
}

KeptStream::Use KeptStream::use() const {
  absl::MutexLock lock(&mutex_);
  return use_;
}

}  // namespace latentd::server::generation
