#include "core/batching/queue.h"

#include <algorithm>
#include <cassert>

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
  std::list<Entry> added;
  // The request's bytes are counted with its first picture and leave with it.
  for (PictureId picture : pictures) {
    added.push_back({picture, need, added.empty() ? bytes : 0, std::nullopt});
  }
  entries_.reserve(entries_.size() + pictures.size());
  // From here on nothing asks for memory: all of it happens, or nothing has.
  for (auto entry = added.begin(); entry != added.end(); ++entry) {
    const bool is_new = entries_.emplace(entry->picture, entry).second;
    assert(is_new);
    (void)is_new;
  }
  order_.splice(order_.end(), added);
  bytes_ += bytes;
  return absl::OkStatus();
}

void Queue::Update(PictureId picture, const Need& need) {
  const auto found = entries_.find(picture);
  if (found != entries_.end()) found->second->need = need;
}

void Queue::Remove(PictureId picture) {
  const auto found = entries_.find(picture);
  if (found == entries_.end()) return;
  const auto entry = found->second;
  if (entry->started) picture_time_ = clock_.Monotonic() - *entry->started;
  bytes_ -= entry->bytes;
  entries_.erase(found);
  order_.erase(entry);
}

// A picture that was prepared while a later one ran waits for that one's end.
const Queue::Entry* Queue::FindNext(bool may_begin) const {
  const Entry* first = nullptr;
  for (const Entry& entry : order_) {
    if (entry.need.kind == UnitKind::kWait) continue;
    if (entry.started) return &entry;
    if (first == nullptr) first = &entry;
  }
  return may_begin ? first : nullptr;
}

bool Queue::CanRun(bool may_begin) const { return FindNext(may_begin) != nullptr; }

std::optional<Unit> Queue::Next(bool may_begin) {
  const Entry* next = FindNext(may_begin);
  if (next == nullptr) return std::nullopt;
  Unit unit{next->need.kind, next->need.lane, {next->picture}};
  std::optional<absl::Time>& started = entries_.find(next->picture)->second->started;
  if (!started) started = clock_.Monotonic();
  return unit;
}

absl::Duration Queue::TimeUntilPlaceIsFree() const {
  return std::max(kShortestRetry, picture_time_.value_or(kShortestRetry));
}

}  // namespace latentd::batching
