#include "core/batching/queue.h"

#include <algorithm>
#include <cassert>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"

namespace latentd::batching {
namespace {

// Until a picture has been measured, and never less than this, so that clients do not spin.
constexpr absl::Duration kShortestRetry = absl::Seconds(1);

bool IsRunnable(UnitKind kind) { return kind != UnitKind::kWait && kind != UnitKind::kDone; }

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
    added.push_back({picture, pictures.front(), need, added.empty() ? bytes : 0, std::nullopt});
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

bool Queue::CanRun(bool may_begin) const {
  return std::any_of(order_.begin(), order_.end(), [&](const Entry& entry) {
    return IsRunnable(entry.need.kind) && (entry.started || may_begin);
  });
}

void Queue::AddBegun(const Entry& entry, LaneWork& work) {
  if (entry.need.kind == UnitKind::kDecode) {
    if (work.decode == nullptr) work.decode = &entry;
    return;
  }
  work.rows = std::max(work.rows, entry.need.lane_rows);
  work.capacity = std::min(work.capacity, entry.need.lane_capacity);
  work.rows_promised += entry.need.rows;
  if (entry.need.kind != UnitKind::kStep) {
    if (work.prepare == nullptr) work.prepare = &entry;
    return;
  }
  Entries& members = entry.need.joined ? work.joined : work.joining;
  if (members.size() < kMostRows) members.push_back(&entry);
}

void Queue::AddWaiting(const Entry& entry, LaneWork& work) {
  work.rows = std::max(work.rows, entry.need.lane_rows);
  work.full = work.full || work.rows_promised + entry.need.rows > work.limit();
  if (work.full || work.prepare != nullptr) return;
  work.prepare = &entry;
}

// What has begun first: it has rows, or is promised some.
Queue::Works Queue::WorkByLane(bool may_begin) const {
  Works works;
  for (const bool begun : {true, false}) {
    if (!begun && !may_begin) break;
    for (const Entry& entry : order_) {
      if (!IsRunnable(entry.need.kind) || entry.started.has_value() != begun) continue;
      auto work = std::find_if(works.begin(), works.end(), [&](const LaneWork& other) {
        return other.lane == entry.need.lane;
      });
      if (work == works.end()) {
        works.push_back({.lane = entry.need.lane});
        work = works.end() - 1;
      }
      begun ? AddBegun(entry, *work) : AddWaiting(entry, *work);
    }
  }
  return works;
}

// All that have their rows, which are evaluated in any case, and as many of the next as fit beside
// them.
Unit Queue::StepOf(const LaneWork& work) {
  Unit unit{.kind = UnitKind::kStep, .lane = work.lane};
  int rows = 0;
  for (const Entry* entry : work.joined) {
    rows += entry->need.rows;
    unit.pictures.push_back(entry->picture);
  }
  for (const Entry* entry : work.joining) {
    rows += entry->need.rows;
    if (rows > work.limit() && !unit.pictures.empty()) break;
    unit.pictures.push_back(entry->picture);
  }
  return unit;
}

Unit Queue::UnitOf(const LaneWork& work) const {
  const Entry* other = work.decode != nullptr ? work.decode : work.prepare;
  if (other == nullptr) return StepOf(work);
  const auto last = last_.find(work.lane);
  const bool stepped = last == last_.end() || last->second.kind == UnitKind::kStep;
  const bool same_request =
      !stepped && work.decode == nullptr && last->second.request == other->request;
  if (work.can_step() && !stepped && !same_request) return StepOf(work);
  return {other->need.kind, work.lane, {other->picture}};
}

std::optional<Unit> Queue::Next(bool may_begin) {
  const Works works = WorkByLane(may_begin);
  absl::InlinedVector<Lane, 4> lanes;
  for (const LaneWork& work : works) {
    if (work.decode || work.prepare || work.can_step()) lanes.push_back(work.lane);
  }
  const std::optional<Lane> lane = turns_.Next(lanes);
  if (!lane) return std::nullopt;
  Unit unit = UnitOf(*std::find_if(works.begin(), works.end(),
                                   [&](const LaneWork& work) { return work.lane == *lane; }));
  turns_.Begin(*lane, unit.kind);
  Start(unit);
  absl::erase_if(last_,
                 [&](const auto& entry) { return !absl::c_linear_search(lanes, entry.first); });
  last_[*lane] = {unit.kind, entries_.find(unit.pictures.front())->second->request};
  return unit;
}

void Queue::Start(const Unit& unit) {
  for (PictureId picture : unit.pictures) {
    std::optional<absl::Time>& started = entries_.find(picture)->second->started;
    if (!started) started = clock_.Monotonic();
  }
}

absl::Duration Queue::TimeUntilPlaceIsFree() const {
  return std::max(kShortestRetry, picture_time_.value_or(kShortestRetry));
}

}  // namespace latentd::batching
