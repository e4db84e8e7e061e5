#include "core/batching/lane_work.h"

#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "core/batching/predict/passing.h"

namespace latentd::batching {

void LaneWork::NoteRows(const Entry& entry) {
  const Need& need = entry.need;
  rows_ = std::max(rows_, need.lane_rows);
  most_places_ = std::max(most_places_, need.lane_places);
}

void LaneWork::KeepRows(const Entry& begun) {
  const Need& need = begun.need;
  if (FollowsSteps(need.kind)) return;
  NoteRows(begun);
  capacity_ = std::min(capacity_, need.lane_capacity);
  if (need.joined && need.lane_places > 0) places_ = std::min(places_, need.lane_places);
  rows_kept_ += need.most_rows();
  rows_begun_ = rows_kept_;
}

void LaneWork::LetPass(const Entry& passes) {
  NoteRows(passes);
  passes_ = &passes;
  if (passes.started && !FollowsSteps(passes.need.kind)) {
    rows_kept_ -= passes.need.most_rows();
  }
}

bool LaneWork::HasRoomFor(const Entry& entry) const {
  const bool passes = passes_ != nullptr && !FollowsSteps(passes_->need.kind);
  const int resting = passes ? passes_->need.most_rows() : 0;
  const int rows = rows_kept_ + entry.need.most_rows();
  return rows <= places() && rows + resting <= all_places();
}

void LaneWork::NoteFirst(const Entry& entry, size_t place) {
  if (first_ != nullptr) return;
  first_ = &entry;
  first_place_ = place;
}

void LaneWork::Add(const Entry& entry, size_t place) {
  const Need& need = entry.need;
  weight_ = std::max(weight_, entry.weight);
  if (FollowsSteps(need.kind)) {
    if (decode_ == nullptr) decode_ = &entry;
    return NoteFirst(entry, place);
  }
  if (!entry.started) {
    if (&entry == passes_) return;  // it begins when it passes
    NoteRows(entry);
    full_ = full_ || !HasRoomFor(entry);
    if (full_) return;
    rows_kept_ += need.most_rows();
  }
  const bool is_next = preview_ == nullptr || entry.previewed < preview_->previewed;
  if (need.preview && is_next) preview_ = &entry;
  before_decode_.push_back(&entry);
  NoteFirst(entry, place);
}

bool LaneWork::FirstStepIsShallow() const {
  const auto first = absl::c_find_if(
      before_decode_, [](const Entry* e) { return e->need.kind == UnitKind::kStep; });
  return first != before_decode_.end() && (*first)->need.shallow;
}

void LaneWork::KeepWhoPays(const Costs& costs) {
  const bool shallow = FirstStepIsShallow();
  std::erase_if(before_decode_, [&](const Entry* e) {
    return e->need.kind == UnitKind::kStep && e->need.shallow != shallow;
  });
  absl::InlinedVector<int, kMostRows> rows;
  for (const Entry* entry : before_decode_) rows.push_back(entry->need.next_rows());
  if (rows.empty()) return;
  const Lane costs_lane = shallow ? ShallowOf(lane_) : lane_;
  before_decode_.resize(costs.CountThatPays(costs_lane, rows, limit()));
}

const Entry* LaneWork::prepare() const {
  const auto found = absl::c_find_if(
      before_decode_, [](const Entry* e) { return e->need.kind != UnitKind::kStep; });
  return found == before_decode_.end() ? nullptr : *found;
}

LaneWork::Members LaneWork::Steppers() const {
  if (sharing_ == Sharing::kByDeadline) return SteppersOf(FirstStepIsShallow());
  Members shallow = SteppersOf(/*shallow=*/true), full = SteppersOf(/*shallow=*/false);
  const bool is_for_others = absl::c_any_of(shallow, [&](const Entry* e) { return e != passes_; });
  return is_for_others || full.empty() ? shallow : full;
}

LaneWork::Members LaneWork::SteppersOf(bool shallow) const {
  Members members;
  absl::c_copy_if(before_decode_, std::back_inserter(members), [&](const Entry* e) {
    return e->need.kind == UnitKind::kStep && e->need.shallow == shallow;
  });
  return members;
}

LaneWork::Members LaneWork::ThatFit(Members members) const {
  int rows = 0;
  size_t count = 0;
  for (const Entry* entry : members) {
    rows += entry->need.next_rows();
    if (count > 0 && (rows > limit() || count == kMostRows)) break;
    ++count;
  }
  members.resize(count);
  return members;
}

LaneWork::Members LaneWork::WhoSteps() const {
  return sharing_ == Sharing::kByDeadline ? ThatFit(Steppers()) : InTurns(Steppers());
}

// Pictures that have rows come first.
LaneWork::Members LaneWork::InTurns(Members steppers) const {
  absl::c_stable_partition(steppers, [](const Entry* e) { return e->need.joined; });
  Members next = ThatFit(steppers);
  if (next.size() == steppers.size()) return next;
  steppers.erase(std::remove(steppers.begin(), steppers.end(), passes_), steppers.end());
  next = steppers;
  absl::c_stable_sort(next, [](const Entry* a, const Entry* b) {
    return std::make_pair(a->found_no_rows, a->stepped) <
           std::make_pair(b->found_no_rows, b->stepped);
  });
  next = ThatFit(std::move(next));
  Members named;
  absl::c_copy_if(steppers, std::back_inserter(named),
                  [&](const Entry* e) { return absl::c_linear_search(next, e); });
  return named;
}

LaneWork::Members LaneWork::WhoGoesAlong(const Costs& costs) const {
  Members members = {passes_};
  absl::c_copy_if(SteppersOf(passes_->need.shallow), std::back_inserter(members),
                  [&](const Entry* e) { return e != passes_ && e->need.joined; });
  absl::c_stable_sort(members, [&](const Entry* a, const Entry* b) {
    return std::make_pair(a != passes_, a->work) < std::make_pair(b != passes_, b->work);
  });
  absl::InlinedVector<int, kMostRows> rows;
  for (const Entry* entry : members) rows.push_back(entry->need.next_rows());
  members.resize(CountTakenAlong(passes_->need.cost_lane(), rows, limit(), costs));
  return members;
}

}  // namespace latentd::batching
