#include "core/batching/queue.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/algorithm/container.h"
#include "core/base/status_macros.h"

namespace latentd::batching {

absl::StatusOr<Prospect> Queue::Admit(const Arrival& arrival) {
  const absl::Time now = clock_.Monotonic();
  const double weight = WeightOf(arrival.priority);
  std::list<Entry> added;
  Entries asking;
  for (PictureId picture : arrival.pictures) {
    added.push_back({.picture = picture,
                     .request = arrival.pictures.front(),
                     .need = arrival.need,
                     .bytes = added.empty() ? arrival.bytes : 0,
                     .caller = arrival.caller,
                     .weight = weight,
                     .admitted = now,
                     .deadline = arrival.deadline,
                     .due = DueOf(now, arrival.deadline, weight)});
    asking.push_back(&added.back());
  }
  ASSIGN_OR_RETURN(
      const Prospect prospect,
      control_.Check(All(), asking, {arrival.content, arrival.comes_back}, callers_, costs_, now));
  entries_.reserve(entries_.size() + added.size());
  // From here on nothing asks for memory: all of it happens, or nothing has.
  for (auto entry = added.begin(); entry != added.end(); ++entry) {
    const bool is_new = entries_.emplace(entry->picture, entry).second;
    assert(is_new);
    (void)is_new;
  }
  order_.splice(order_.end(), added);
  ++changes_;
  return prospect;
}

Entries Queue::All() const {
  Entries all;
  all.reserve(order_.size());
  for (const Entry& entry : order_) all.push_back(&entry);
  return all;
}

absl::Time Queue::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const Entry& entry : order_) next = std::min(next, entry.deadline);
  return next;
}

std::vector<std::pair<PictureId, Prospect>> Queue::Waiting() const {
  const Timetable timetable = Foresee(All(), callers_, costs_);
  std::vector<std::pair<PictureId, Prospect>> waiting;
  PictureId last = 0;
  for (size_t i = 0; i < timetable.order.size(); ++i) {
    const Entry& entry = *timetable.order[i];
    if (entry.request_started || std::exchange(last, entry.request) == entry.request) continue;
    waiting.push_back(
        {entry.picture,
         {.position = static_cast<int>(i), .outlook = timetable.OfRequest(entry.request)}});
  }
  return waiting;
}

Backlog Queue::backlog() const {
  const Timetable timetable = Foresee(All(), callers_, costs_);
  Backlog backlog{.pictures = size()};
  for (const Outlook& outlook : timetable.outlooks) {
    backlog.ends = std::max(backlog.ends, outlook.ends);
    backlog.known = backlog.known && outlook.known;
  }
  return backlog;
}

void Queue::Update(PictureId picture, const Need& need) {
  const auto found = entries_.find(picture);
  if (found == entries_.end()) return;
  Need& old = found->second->need;
  if (old.kind == UnitKind::kWait) ++changes_;  // what it has left may be known now
  old = need;
}

void Queue::Remove(PictureId picture) {
  const auto found = entries_.find(picture);
  if (found == entries_.end()) return;
  const auto entry = found->second;
  entries_.erase(found);
  order_.erase(entry);
  ++changes_;
}

bool Queue::CanRun(bool may_begin) const {
  return std::any_of(order_.begin(), order_.end(), [&](const Entry& entry) {
    return IsRunnable(entry) && (entry.started || may_begin);
  });
}

void Queue::AddBegun(const Entry& entry, LaneWork& work) {
  if (entry.need.kind == UnitKind::kDecode) {
    if (work.decode == nullptr) work.decode = &entry;
    return;
  }
  const bool is_next = work.preview == nullptr || entry.previewed < work.preview->previewed;
  if (entry.need.preview && is_next) work.preview = &entry;
  work.rows = std::max(work.rows, entry.need.lane_rows);
  work.capacity = std::min(work.capacity, entry.need.lane_capacity);
  work.rows_promised += entry.need.most_rows();
  if (entry.need.kind != UnitKind::kStep) {
    if (work.prepare == nullptr) work.prepare = &entry;
    return;
  }
  Members& members = entry.need.joined ? work.joined : work.joining;
  if (members.size() < kMostRows) members.push_back(&entry);
}

void Queue::AddWaiting(const Entry& entry, LaneWork& work) {
  work.rows = std::max(work.rows, entry.need.lane_rows);
  work.full = work.full || work.rows_promised + entry.need.most_rows() > work.limit();
  if (work.full || work.prepare != nullptr) return;
  work.prepare = &entry;
}

// What has begun first: it has rows, or is promised some.
Queue::Works Queue::WorkByLane(bool may_begin) const {
  Works works;
  for (const Entry* entry : InOrder(All(), callers_, costs_)) {
    if (!IsRunnable(*entry) || (!entry->started && !may_begin)) continue;
    auto work = std::find_if(works.begin(), works.end(),
                             [&](const LaneWork& other) { return other.lane == entry->need.lane; });
    if (work == works.end()) {
      works.emplace_back().lane = entry->need.lane;
      work = works.end() - 1;
    }
    work->weight = std::max(work->weight, entry->weight);
    entry->started ? AddBegun(*entry, *work) : AddWaiting(*entry, *work);
  }
  return works;
}

// All that have their rows, which are evaluated in any case, and as many of the next as fit beside
// them.
Unit Queue::StepOf(const LaneWork& work) {
  Unit unit{.kind = UnitKind::kStep, .lane = work.lane};
  int rows = 0;
  for (const Entry* entry : work.joined) {
    rows += entry->need.most_rows();
    unit.pictures.push_back(entry->picture);
  }
  for (const Entry* entry : work.joining) {
    rows += entry->need.most_rows();
    if (rows > work.limit() && !unit.pictures.empty()) break;
    unit.pictures.push_back(entry->picture);
  }
  return unit;
}

bool Queue::GoesBeforeTheStep(UnitKind kind, const Entry& entry, const LaneWork& work) const {
  const auto found = between_.find(work.lane);
  const Between between = found == between_.end() ? Between{} : found->second;
  const auto has_run = [&] {
    if (kind == UnitKind::kDecode) return between.decoded;
    if (kind == UnitKind::kPreview) return between.previewed;
    return between.prepared != 0 && between.prepared != entry.request;
  };
  if (!has_run()) return true;
  const absl::Duration cost = costs_.Of(kind, work.lane);
  const absl::Duration step = costs_.Of(UnitKind::kStep, work.lane, RowsOf(StepOf(work)));
  return cost > absl::ZeroDuration() && between.expected + cost <= step;
}

Unit Queue::UnitOf(const LaneWork& work) const {
  const auto may_run = [&](UnitKind kind, const Entry* entry) {
    return entry != nullptr && (!work.can_step() || GoesBeforeTheStep(kind, *entry, work));
  };
  for (const Entry* entry : {work.decode, work.prepare}) {
    if (entry == nullptr || !may_run(entry->need.kind, entry)) continue;
    return {entry->need.kind, work.lane, {entry->picture}};
  }
  if (may_run(UnitKind::kPreview, work.preview)) {
    return {UnitKind::kPreview, work.lane, {work.preview->picture}};
  }
  return StepOf(work);
}

void Queue::Remember(const Unit& unit) {
  Between& between = between_[unit.lane];
  if (unit.kind == UnitKind::kStep) {
    between = {};
    return;
  }
  between.expected += unit.expected;
  if (unit.kind == UnitKind::kDecode) {
    between.decoded = true;
  } else if (unit.kind == UnitKind::kPreview) {
    between.previewed = true;
    entries_.find(unit.pictures.front())->second->previewed = ++previews_;
  } else {
    between.prepared = EntryOf(unit.pictures.front()).request;
  }
}

std::optional<Unit> Queue::Next(bool may_begin) {
  const Works works = WorkByLane(may_begin);
  absl::InlinedVector<Lane, 4> lanes;
  for (const LaneWork& work : works) {
    if (work.any()) lanes.push_back(work.lane);
  }
  const std::optional<Lane> lane = turns_.Next(lanes);
  if (!lane) return std::nullopt;
  const LaneWork& work = *std::find_if(works.begin(), works.end(),
                                       [&](const LaneWork& other) { return other.lane == *lane; });
  Unit unit = UnitOf(work);
  unit.weight = work.weight;
  unit.expected = costs_.Of(unit.kind, *lane, RowsOf(unit));
  turns_.Begin(*lane, unit.expected / unit.weight);
  Start(unit);
  absl::erase_if(between_,
                 [&](const auto& entry) { return !absl::c_linear_search(lanes, entry.first); });
  Remember(unit);
  return unit;
}

int Queue::RowsOf(const Unit& unit) const {
  int rows = 0;
  for (PictureId picture : unit.pictures) rows += EntryOf(picture).need.next_rows();
  return rows;
}

void Queue::Start(const Unit& unit) {
  for (PictureId picture : unit.pictures) {
    Entry& entry = *entries_.find(picture)->second;
    if (std::exchange(entry.started, true)) continue;
    ++changes_;
    if (!entry.request_started) StartRequest(entry.request);
  }
}

void Queue::StartRequest(PictureId request) {
  Entries pictures;
  for (Entry& entry : order_) {
    if (entry.request != request) continue;
    entry.request_started = true;
    pictures.push_back(&entry);
  }
  const Entry& first = *pictures.front();
  callers_.Begin(first.caller, AloneTime(pictures, costs_) / first.weight);
}

void Queue::Measure(const Unit& unit, int computed_rows, absl::Duration took) {
  turns_.Correct(unit.lane, unit.expected / unit.weight, took / unit.weight);
  if (computed_rows > 0) costs_.Measure(unit.kind, unit.lane, computed_rows, took);
}

}  // namespace latentd::batching
