#include "server/calls/kept_stream.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/base/error_details.h"
#include "core/base/out_of_memory.h"

namespace latentd::server::calls {
namespace {

absl::Status TakenOver() {
  return WithReason(absl::AbortedError("another call of ResumeStream reads this stream now"),
                    "TAKEN_OVER");
}

absl::Status Dropped() {
  return WithReason(absl::NotFoundError("what was kept of this stream has just been dropped"),
                    "NO_SUCH_STREAM");
}

bool IsEnd(const engine::Event& event) {
  return std::holds_alternative<engine::Completed>(event) ||
         std::holds_alternative<engine::Failed>(event);
}

}  // namespace

void KeptStream::OnEvent(engine::Event event) {
  {
    absl::MutexLock lock(&mutex_);
    use_.ended = use_.ended || IsEnd(event);
    use_.failed = use_.failed || std::holds_alternative<engine::Failed>(event);
  }
  const absl::Status kept = CatchOutOfMemory([&] {
    Keep(std::make_shared<const engine::Event>(std::move(event)));
    return absl::OkStatus();
  });
  if (!kept.ok()) Lose();
}

void KeptStream::Keep(SharedEvent event) {
  absl::MutexLock delivery(&delivery_);
  const std::shared_ptr<const Reader> reader = Add(event);
  if (reader != nullptr) (*reader)(std::move(event));
}

std::shared_ptr<const KeptStream::Reader> KeptStream::Add(const SharedEvent& event) {
  absl::MutexLock lock(&mutex_);
  if (dropped_) return reader_;
  if (const auto* image = std::get_if<engine::Image>(event.get())) {
    use_.bytes += static_cast<int64_t>(image->bytes.size());
    use_.oldest_picture = std::min(use_.oldest_picture, clock_.Monotonic());
  } else {
    std::erase_if(events_,
                  [&](const SharedEvent& older) { return older->index() == event->index(); });
  }
  events_.push_back(event);
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
    if (reader != nullptr) (*reader)(nullptr);
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

void KeptStream::Attach(const void* call, std::shared_ptr<const Reader> reader) {
  const auto taken_over = std::make_shared<const engine::Event>(engine::Failed{TakenOver()});
  absl::MutexLock delivery(&delivery_);
  std::vector<SharedEvent> events;
  std::shared_ptr<const Reader> before;
  bool lost = false, is_over = false;
  {
    absl::MutexLock lock(&mutex_);
    events = events_;
    lost = lost_;
    is_over = dropped_ && use_.ended;
    before = std::exchange(reader_, reader);
    call_ = call;
    use_.unread_since = absl::InfiniteFuture();
  }
  if (before != nullptr) (*before)(taken_over);
  for (SharedEvent& event : events) (*reader)(std::move(event));
  if (lost) {
    (*reader)(nullptr);
  } else if (is_over) {
    (*reader)(std::make_shared<const engine::Event>(engine::Failed{Dropped()}));
  }
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

void KeptStream::Drop() {
  std::vector<SharedEvent> events;  // gone once nothing is locked
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

KeptStream::Use KeptStream::use() const {
  absl::MutexLock lock(&mutex_);
  return use_;
}

}  // namespace latentd::server::calls
