#include "core/batching/queue.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/algorithm/container.h"
#include "core/base/errors/status_macros.h"

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
                     .together = static_cast<int>(arrival.pictures.size()),
                     .admitted = now,
                     .deadline = arrival.deadline,
                     .due = DueOf(now, arrival.deadline, weight),
                     .devices = arrival.devices});
    added.back().work = RequestWorkOf(added.back());
    asking.push_back(&added.back());
  }
  ASSIGN_OR_RETURN(const Prospect prospect,
                   control_.Check(foresight(now), asking, arrival.content, callers_, costs_, now));
  entries_.reserve(entries_.size() + added.size());
  // From here on nothing asks for memory: all of it happens, or nothing has.
  for (auto entry = added.begin(); entry != added.end(); ++entry) {
    const bool is_new = entries_.emplace(entry->picture, entry).second;
    assert(is_new);
    (void)is_new;
  }
  order_.splice(order_.end(), added);
  ForgetForesight();
  ++changes_;
  return prospect;
}

Foresight& Queue::foresight(absl::Time now) const {
  if (!foresight_ || !foresight_->Holds(now)) {
    Entries all;
    all.reserve(order_.size());
    for (const Entry& entry : order_) all.push_back(&entry);
    foresight_.emplace(std::move(all), callers_, costs_, static_cast<int>(devices_.size()), now);
  }
  return *foresight_;
}

std::vector<std::pair<PictureId, Prospect>> Queue::Waiting() const {
  const absl::Time now = clock_.Monotonic();
  const Timetable& timetable = foresight(now).At(now);
  std::vector<std::pair<PictureId, Prospect>> waiting;
  const std::vector<int> positions = timetable.Positions();
  PictureId last = 0;
  for (size_t i = 0; i < timetable.order.size(); ++i) {
    const Entry& entry = *timetable.order[i];
    if (entry.request_started || std::exchange(last, entry.request) == entry.request) continue;
    waiting.push_back(
        {entry.picture, {.position = positions[i], .outlook = timetable.OfRequest(entry.request)}});
  }
  return waiting;
}

Backlog Queue::backlog(int device) const {
  const absl::Time now = clock_.Monotonic();
  const Timetable& timetable = foresight(now).At(now, device);
  const bool known =
      absl::c_all_of(timetable.outlooks, [](const Outlook& outlook) { return outlook.known; });
  return {.pictures = static_cast<int>(timetable.order.size()),
          .ends = timetable.LastEnd(),
          .known = known};
}

void Queue::Update(PictureId picture, const Need& need) {
  const auto found = entries_.find(picture);
  if (found == entries_.end()) return;
  ForgetForesight();
  Entry& entry = *found->second;
  if (std::exchange(entry.asks_for_rows, false)) {
    entry.found_no_rows = need.kind == UnitKind::kStep && !need.joined;
  }
  Need& old = entry.need;
  if (old.kind == UnitKind::kWait) ++changes_;  // its remaining work may be known now
  old = need;
  if (!entry.started) entry.work = RequestWorkOf(entry);
}

void Queue::Remove(PictureId picture) {
  const auto found = entries_.find(picture);
  if (found == entries_.end()) return;
  ForgetForesight();
  const auto entry = found->second;
  entries_.erase(found);
  order_.erase(entry);
  LookForRowsAgain();
  ++changes_;
}

// Others have left, or have moved on.
void Queue::LookForRowsAgain() {
  for (Entry& entry : order_) entry.found_no_rows = false;
}

void Queue::Lose(int device) {
  if (std::exchange(devices_[device].lost, true)) return;
  control_.LoseDevice();
  for (Entry& entry : order_) entry.devices &= ~(uint64_t{1} << device);
  ForgetForesight();
  ++changes_;
}

void Queue::Move(absl::Span<const PictureId> request, int device) {
  for (const PictureId picture : request) {
    const auto found = entries_.find(picture);
    if (found == entries_.end() || found->second->request_started) continue;
    found->second->devices = uint64_t{1} << device;
    ForgetForesight();
    ++changes_;
  }
}

bool Queue::CanRun(bool may_begin, int device) const {
  if (devices_[device].lost) return false;
  return std::any_of(order_.begin(), order_.end(), [&](const Entry& entry) {
    return IsRunnable(entry) && (entry.started || may_begin) && entry.MayRunOn(device);
  });
}

Queue::Works Queue::WorkByLane(Entries order, Sharing sharing, bool may_begin,
                               const Entry*& passes) const {
  Works works;
  const auto work_of = [&](const Entry& entry) -> LaneWork& {
    const Lane& lane = entry.need.lane;
    const auto work =
        absl::c_find_if(works, [&](const LaneWork& other) { return other.lane() == lane; });
    return work == works.end() ? works.emplace_back(lane, sharing) : *work;
  };
  if (sharing == Sharing::kByDeadline) {
    absl::c_stable_partition(order, [](const Entry* entry) { return !entry->found_no_rows; });
  }
  for (const Entry* entry : order) {
    if (entry->started && IsRunnable(*entry)) work_of(*entry).KeepRows(*entry);
  }
  if (sharing == Sharing::kInTurns) {
    passes = WhoPassesOthers(order, works, may_begin);
    if (passes != nullptr) work_of(*passes).LetPass(*passes);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    const Entry& entry = *order[i];
    if (!IsRunnable(entry) || (!entry.started && !may_begin)) continue;
    work_of(entry).Add(entry, i);
  }
  if (sharing == Sharing::kByDeadline) {
    for (LaneWork& work : works) work.KeepWhoPays(costs_);
  }
  return works;
}

const LaneWork* Queue::NextLane(const Works& works, Sharing sharing, const DeviceTime& device) {
  if (sharing == Sharing::kByDeadline) {
    const auto first = absl::c_min_element(works, [](const LaneWork& a, const LaneWork& b) {
      return a.first_place() < b.first_place();
    });
    return first == works.end() || !first->any() ? nullptr : &*first;
  }
  absl::InlinedVector<Lane, 4> lanes;
  for (const LaneWork& work : works) {
    if (work.any()) lanes.push_back(work.lane());
  }
  const std::optional<Lane> next = device.turns.Next(lanes);
  if (!next) return nullptr;
  return &*absl::c_find_if(works, [&](const LaneWork& work) { return work.lane() == *next; });
}

Unit Queue::StepOf(const LaneWork& work) {
  Unit unit{.kind = UnitKind::kStep, .lane = work.lane()};
  for (const Entry* entry : work.WhoSteps()) {
    unit.pictures.push_back(entry->picture);
    unit.shallow = entry->need.shallow;
  }
  return unit;
}

const Entry* Queue::WhoPassesOthers(const Entries& order, const Works& works,
                                    bool may_begin) const {
  std::vector<Runner> runners;
  for (const Entry* entry : order) {
    if (!entry->started && !IsRunnable(*entry)) {
      runners.emplace_back();  // its graphs are not ready: it holds up no other
      continue;
    }
    const bool can_run =
        IsRunnable(*entry) && !entry->found_no_rows && (entry->started || may_begin);
    const auto work = absl::c_find_if(
        works, [&](const LaneWork& other) { return other.lane() == entry->need.lane; });
    const bool has_room = work == works.end() || work->HasRoomToPass(*entry);
    runners.push_back({entry->work, entry->started, can_run && has_room});
  }
  const std::optional<size_t> passes = WhoPasses(runners);
  return passes ? order[*passes] : nullptr;
}

// By others that it shares its steps with.
bool Queue::IsHeldUp(const Need& need, absl::Duration round, int lanes) const {
  const Lane lane = need.cost_lane();
  const absl::Duration own = costs_.Of(UnitKind::kStep, lane, need.next_rows());
  const int most = std::min(need.lane_rows, need.lane_capacity);
  return HoldsUp(round, lanes, own) && !GainsByCompany(lane, need.next_rows(), most, costs_);
}

// Nothing where it is the others' turn, or where it is not held up by them.
std::optional<Unit> Queue::PassingUnit(const Works& works, const Entry& passes, bool others_run,
                                       const DeviceTime& device) const {
  const Need& need = passes.need;
  Unit unit{.kind = need.kind, .lane = need.lane, .pictures = {passes.picture}};
  unit.shallow = need.kind == UnitKind::kStep && need.shallow;
  absl::Duration round;
  bool takes_part = false;
  for (const LaneWork& work : works) {
    const Unit step = StepOf(work);
    round += costs_.Of(UnitKind::kStep, step.cost_lane(), RowsOf(step));
    takes_part = takes_part || absl::c_linear_search(step.pictures, passes.picture);
    if (unit.kind != UnitKind::kStep || work.lane() != unit.lane) continue;
    unit.pictures.clear();
    for (const Entry* entry : work.WhoGoesAlong(costs_)) {
      unit.pictures.push_back(entry->picture);
    }
  }
  if (takes_part && !IsHeldUp(need, round, static_cast<int>(works.size()))) return std::nullopt;
  unit.expected = costs_.Of(unit.kind, unit.cost_lane(), RowsOf(unit));
  unit.in_turn = false;
  unit.passes = true;
  if (others_run && !device.passing.Allows(unit.expected, round)) return std::nullopt;
  return unit;
}

bool Queue::GoesBeforeTheStep(UnitKind kind, const Entry& entry, const Unit& step,
                              const DeviceTime& device) const {
  const Lane& lane = step.lane;
  const auto found = device.between.find(lane);
  const Between between = found == device.between.end() ? Between{} : found->second;
  const auto has_run = [&] {
    if (FollowsSteps(kind)) return between.decoded;
    if (kind == UnitKind::kPreview) return between.previewed;
    return between.prepared != 0 && between.prepared != entry.request;
  };
  if (!has_run()) return true;
  const absl::Duration cost = costs_.Of(kind, lane, entry.need.rows_of(kind));
  const absl::Duration taken = costs_.Of(UnitKind::kStep, step.cost_lane(), RowsOf(step));
  return cost > absl::ZeroDuration() && between.expected + cost <= taken;
}

Unit Queue::UnitOf(const LaneWork& work, const DeviceTime& device) const {
  const Lane& lane = work.lane();
  const Unit step = StepOf(work);
  const Entry& first = *work.first();
  if (work.sharing() == Sharing::kByDeadline && first.need.kind != UnitKind::kStep) {
    return {first.need.kind, lane, {first.picture}};
  }
  const auto may_run = [&](UnitKind kind, const Entry* entry) {
    return entry != nullptr &&
           (step.pictures.empty() || GoesBeforeTheStep(kind, *entry, step, device));
  };
  for (const Entry* entry : {work.decode(), work.prepare()}) {
    if (entry == nullptr || !may_run(entry->need.kind, entry)) continue;
    return {entry->need.kind, lane, {entry->picture}};
  }
  if (may_run(UnitKind::kPreview, work.preview())) {
    return {UnitKind::kPreview, lane, {work.preview()->picture}};
  }
  return step;
}

void Queue::Remember(const Unit& unit) {
  if (unit.passes && !unit.in_turn && unit.kind != UnitKind::kStep) return;
  Between& between = devices_[unit.device].between[unit.lane];
  if (unit.kind == UnitKind::kStep) {
    between = {};
    return;
  }
  between.expected += unit.expected;
  if (FollowsSteps(unit.kind)) {
    between.decoded = true;
  } else if (unit.kind == UnitKind::kPreview) {
    between.previewed = true;
    entries_.find(unit.pictures.front())->second->previewed = ++previews_;
  } else {
    between.prepared = EntryOf(unit.pictures.front()).request;
  }
}

std::optional<Unit> Queue::Next(bool may_begin, int device) {
  DeviceTime& time = devices_[device];
  time.helper = -1;
  if (time.lost) return std::nullopt;
  const absl::Time now = clock_.Monotonic();
  Foresight& all = foresight(now);
  const Timetable& timetable = all.OrderAt(now, device);
  const Sharing sharing = timetable.sharing;
  const bool idle =
      absl::c_none_of(timetable.order, [](const Entry* entry) { return IsRunnable(*entry); });
  const Entry* passes = nullptr;
  const Works works =
      WorkByLane(idle ? all.FirstWaiting(device) : timetable.order, sharing, may_begin, passes);
  std::optional<Unit> next;
  const LaneWork* const work = NextLane(works, sharing, time);
  if (passes != nullptr) next = PassingUnit(works, *passes, /*others_run=*/work != nullptr, time);
  if (!next && work == nullptr) return std::nullopt;
  if (!next) {
    next = UnitOf(*work, time);
    next->weight = work->weight();
    next->expected = costs_.Of(next->kind, next->cost_lane(), RowsOf(*next));
    next->in_turn = sharing != Sharing::kByDeadline;
    // Between two steps of the others, perhaps.
    next->passes = passes != nullptr && next->pictures.size() == 1 &&
                   next->pictures.front() == passes->picture;
  }
  if (passes == nullptr) time.passing.Forget();
  Unit unit = *std::move(next);
  unit.device = device;
  unit.helper = time.helper = HelperOf(unit, now);
  if (unit.helper >= 0) {
    time.helped = unit.pictures.front();
    unit.expected = SplitTime(unit.lane);
  }
  BeginTurn(unit);
  Start(unit);
  absl::erase_if(time.between, [&](const auto& entry) {
    return absl::c_none_of(works,
                           [&](const LaneWork& other) { return other.lane() == entry.first; });
  });
  Remember(unit);
  return unit;
}

// Until it has been measured: as long as one of its rows.
absl::Duration Queue::SplitTime(const Lane& lane) const {
  const absl::Duration measured = split_costs_.Of(UnitKind::kStep, lane, /*rows=*/2);
  return measured > absl::ZeroDuration() ? measured : costs_.Of(UnitKind::kStep, lane, /*rows=*/1);
}

// By kAuto tried once steps without help have been measured, until enough is known of it. From then
// on the slower of the two runs at times: what made it slow may be over.
bool Queue::SplitPays(const Unit& unit) const {
  if (split_ == Split::kAlways) return true;
  Ahead one;
  one.stages.front() = {.lane = unit.lane, .runs = {{.count = 1, .rows = 2}}};
  if (!costs_.HasMeasured(one)) return false;
  if (!split_costs_.HasMeasured(one)) return true;
  constexpr uint64_t kTriedAgain = 100;
  const absl::Duration alone = costs_.Of(UnitKind::kStep, unit.lane, /*rows=*/2);
  const bool is_other = steps_ % kTriedAgain == 0;
  return (SplitTime(unit.lane) < alone) != is_other;
}

int Queue::HelperOf(const Unit& unit, absl::Time now) const {
  if (split_ == Split::kNever || unit.kind != UnitKind::kStep || unit.pictures.size() != 1) {
    return -1;
  }
  const Need& need = EntryOf(unit.pictures.front()).need;
  if (need.helpers == 0 || !SplitPays(unit)) return -1;
  for (int device = 0; device < static_cast<int>(devices_.size()); ++device) {
    if ((need.helpers >> device & 1) != 0 && MayHelp(device, unit, now)) return device;
  }
  return -1;
}

bool Queue::MayHelp(int device, const Unit& unit, absl::Time now) const {
  if (device == unit.device || devices_[device].lost) return false;
  for (int other = 0; other < static_cast<int>(devices_.size()); ++other) {
    const bool helps_it = other != unit.device && devices_[other].helper == device;
    if (helps_it && entries_.contains(devices_[other].helped)) return false;
  }
  if (split_ == Split::kAlways) return true;
  const absl::Duration takes = SplitTime(unit.lane);
  return absl::c_all_of(foresight(now).OrderAt(now, device).order, [&](const Entry* entry) {
    return !entry->started && !IsRunnable(*entry) && ReadyIn(*entry, now) > takes;
  });
}

void Queue::BeginTurn(const Unit& unit) {
  DeviceTime& device = devices_[unit.device];
  if (unit.in_turn) device.turns.Begin(unit.lane, unit.expected / unit.weight);
  if (unit.in_turn || unit.passes) device.passing.Add(unit.passes, CountedTime(unit.expected));
}

int Queue::RowsOf(const Unit& unit) const {
  if (unit.kind != UnitKind::kStep) {
    return EntryOf(unit.pictures.front()).need.rows_of(unit.kind);
  }
  int rows = 0;
  for (PictureId picture : unit.pictures) rows += EntryOf(picture).need.next_rows();
  return rows;
}

void Queue::Start(const Unit& unit) {
  for (PictureId picture : unit.pictures) {
    Entry& entry = *entries_.find(picture)->second;
    if (unit.kind == UnitKind::kStep) {
      entry.stepped = ++steps_;
      entry.asks_for_rows = !entry.need.joined;
    }
    if (std::exchange(entry.started, true)) continue;
    ForgetForesight();
    ++changes_;
    if (!entry.request_started) StartRequest(entry.request, unit.device);
  }
}

void Queue::StartRequest(PictureId request, int device) {
  Entries pictures;
  for (Entry& entry : order_) {
    if (entry.request != request) continue;
    entry.request_started = true;
    entry.device = device;
    pictures.push_back(&entry);
  }
  const Entry& first = *pictures.front();
  callers_.Begin(first.caller, AloneTime(pictures, costs_) / first.weight);
}

void Queue::Measure(const Unit& unit, int computed_rows, absl::Duration took) {
  DeviceTime& device = devices_[unit.device];
  if (unit.in_turn)
    device.turns.Correct(unit.lane, unit.expected / unit.weight, took / unit.weight);
  if (unit.in_turn || unit.passes) {
    device.passing.Add(unit.passes, CountedTime(took) - CountedTime(unit.expected));
  }
  if (computed_rows == 0) return;
  if (unit.kind == UnitKind::kStep) LookForRowsAgain();
  ForgetForesight();
  Costs& costs = unit.helper < 0 ? costs_ : split_costs_;
  costs.Measure(unit.kind, unit.cost_lane(), computed_rows, took);
}

}  // namespace latentd::batching
