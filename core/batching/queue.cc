#include "core/batching/queue.h"

#include <algorithm>
#include <cassert>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"

namespace latentd::batching {
namespace {

// Until a picture has been measured, and never less than this, so that clients do not spin.
constexpr absl::Duration kShortestRetry = absl::Seconds(1);

}  // namespace

absl::Status Queue::Admit(absl::Span<const PictureId> pictures, const Need& need, size_t bytes) {
  if (order_.size() + pictures.size() > static_cast<size_t>(limits_.pictures) ||
      bytes > limits_.bytes - std::min(bytes_, limits_.bytes)) {
    return WithRetryDelay(
        WithReason(absl::ResourceExhaustedError(
                       absl::StrCat("the queue is full: ", order_.size(), " of ", limits_.pictures,
                                    " pictures are waiting or running, and this request asks for ",
                                    pictures.size(), " more")),
                   "QUEUE_FULL"),
        TimeUntilPlaceIsFree());
  }
  for (size_t i = 0; i < pictures.size(); ++i) {
    // The request's bytes are counted with its first picture and leave with it.
    order_.push_back({pictures[i], need, i == 0 ? bytes : 0, std::nullopt});
    const bool is_new = entries_.emplace(pictures[i], std::prev(order_.end())).second;
    assert(is_new);
    (void)is_new;
  }
  bytes_ += bytes;
  return absl::OkStatus();
}

void Queue::Update(PictureId picture, const Need& need) { entries_.at(picture)->need = need; }

void Queue::Remove(PictureId picture) {
  const auto entry = entries_.at(picture);
  if (entry->started) picture_time_ = clock_.Monotonic() - *entry->started;
  bytes_ -= entry->bytes;
  order_.erase(entry);
  entries_.erase(picture);
}

// A picture that was prepared while a later one ran waits for that one's end.
std::list<Queue::Entry>::const_iterator Queue::FindNext() const {
  const auto can_run = [](const Entry& entry) { return entry.need.kind != UnitKind::kPrepare; };
  const auto is_running = [&](const Entry& entry) { return can_run(entry) && entry.started; };
  const auto running = std::find_if(order_.begin(), order_.end(), is_running);
  return running != order_.end() ? running : std::find_if(order_.begin(), order_.end(), can_run);
}

bool Queue::CanRun() const { return FindNext() != order_.end(); }

std::optional<Unit> Queue::Next() {
  const auto next = FindNext();
  if (next == order_.end()) return std::nullopt;
  Entry& entry = *entries_.at(next->picture);
  if (!entry.started) entry.started = clock_.Monotonic();
  return Unit{entry.need.kind, entry.need.lane, {entry.picture}};
}

absl::Duration Queue::TimeUntilPlaceIsFree() const {
  return std::max(kShortestRetry, picture_time_.value_or(kShortestRetry));
}

}  // namespace latentd::batching
