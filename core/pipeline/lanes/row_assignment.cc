#include "core/pipeline/lanes/row_assignment.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace latentd::pipeline {
namespace {

// Without the rows that there was no memory for. To try them takes about as long as a step.
constexpr int kStepsWithFewer = 64;

}  // namespace

void RowAssignment::AddCount(int rows) {
  absl::MutexLock lock(&mutex_);
  if (rows <= rows_) counts_.insert(rows);
}

std::optional<RowAssignment::Member> RowAssignment::Take(int rows, int most_rows) {
  absl::MutexLock lock(&mutex_);
  const int keeps = std::max(rows, most_rows);
  int kept = keeps;
  for (const auto& [id, place] : members_) kept += place.kept;
  const int most = most_rows_ == kUnlimited ? rows_ : Capacity();
  if (keeps > Capacity() || kept > most) return std::nullopt;
  const Member id = next_++;
  Place& place = members_[id];
  place.kept = keeps;
  for (int i = 0; i < rows; ++i) place.rows.push_back(FreeRow());
  return id;
}

void RowAssignment::Change(Member member, int rows, int most_rows) {
  absl::MutexLock lock(&mutex_);
  Place& place = members_.at(member);
  place.kept = std::max(rows, most_rows);
  if (rows == 1) place.rows = {place.rows.back()};
  if (rows > static_cast<int>(place.rows.size())) {
    place.rows.insert(place.rows.begin(), FreeRow());
  }
}

void RowAssignment::Free(Member member) {
  absl::MutexLock lock(&mutex_);
  members_.erase(member);
  if (members_.empty()) most_rows_ = kUnlimited;
}

RowAssignment::Rows RowAssignment::RowsOf(Member member) const {
  absl::MutexLock lock(&mutex_);
  return members_.at(member).rows;
}

bool RowAssignment::Rests(Member member) const {
  absl::MutexLock lock(&mutex_);
  return members_.at(member).rests;
}

int RowAssignment::taken() const {
  absl::MutexLock lock(&mutex_);
  return Taken();
}

int RowAssignment::Taken() const {
  size_t taken = 0;
  for (const auto& [id, place] : members_) taken += place.rows.size();
  return static_cast<int>(taken);
}

int RowAssignment::capacity() const {
  absl::MutexLock lock(&mutex_);
  return Capacity();
}

int RowAssignment::Capacity() const {
  const auto beyond = counts_.upper_bound(most_rows_);
  if (beyond != counts_.begin()) return *std::prev(beyond);
  return counts_.empty() ? 0 : *counts_.begin();
}

int RowAssignment::CountFor(int taken) const {
  absl::MutexLock lock(&mutex_);
  return Covering(std::min(taken, Capacity()));
}

int RowAssignment::Covering(int taken) const { return *counts_.lower_bound(taken); }

// True if so many of the rows that are taken can be evaluated, and the others lie behind them.
bool RowAssignment::CanStep(int rows) const {
  return rows <= Capacity() && Taken() - rows <= rows_ - Covering(rows);
}

bool RowAssignment::TakeNoise(Member member) {
  absl::MutexLock lock(&mutex_);
  return !std::exchange(members_.at(member).has_noise, true);
}

RowAssignment::Plan RowAssignment::PlanStep(absl::Span<const Member> wanted) {
  Plan plan;
  absl::MutexLock lock(&mutex_);
  Choose(wanted, plan);
  Arrange(plan);
  return plan;
}

// Chooses the longest run of the first ones that can step together, and others that fit in.
void RowAssignment::Choose(absl::Span<const Member> wanted, Plan& plan) {
  for (auto& [id, place] : members_) place.rests = true;
  const std::vector<Place*> places = wanted.empty() ? ByLastRow() : PlacesOf(wanted);
  size_t first = 0;
  int rows = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    rows += static_cast<int>(places[i]->rows.size());
    if (i > 0 && !CanStep(rows)) continue;
    first = i + 1;
    plan.taken = rows;
  }
  for (size_t i = 0; i < places.size(); ++i) {
    const int more = plan.taken + static_cast<int>(places[i]->rows.size());
    places[i]->rests = i >= first && !CanStep(more);
    if (i >= first && !places[i]->rests) plan.taken = more;
  }
  plan.rows = Covering(std::max(plan.taken, 1));
}

std::vector<RowAssignment::Place*> RowAssignment::PlacesOf(absl::Span<const Member> wanted) {
  std::vector<Place*> places;
  for (Member member : wanted) places.push_back(&members_.at(member));
  return places;
}

std::vector<RowAssignment::Place*> RowAssignment::ByLastRow() {
  std::vector<Place*> places;
  for (auto& [id, place] : members_) places.push_back(&place);
  const auto last = [](const Place* place) {
    return *std::max_element(place->rows.begin(), place->rows.end());
  };
  std::sort(places.begin(), places.end(),
            [&](const Place* a, const Place* b) { return last(a) < last(b); });
  return places;
}

// Moves active members to the first rows, and resting ones behind them.
void RowAssignment::Arrange(Plan& plan) {
  std::vector<Holder> holders = Holders();
  const auto begin = holders.begin(), end_of_step = begin + plan.rows, end = holders.end();
  std::set<const Place*> moved;
  const auto move = [&](int from, int to) {
    plan.moves.push_back({from, to, IsTaken(holders[to])});
    std::swap(holders[from], holders[to]);
    for (int row : {from, to}) {
      if (!IsTaken(holders[row])) continue;
      holders[row].place->rows[holders[row].index] = row;
      moved.insert(holders[row].place);
    }
  };
  for (int row = plan.rows; row < rows_; ++row) {
    if (!IsTaken(holders[row]) || holders[row].place->rests) continue;
    auto to = std::find_if_not(begin, end_of_step, IsTaken);
    if (to == end_of_step) to = std::find_if(begin, end_of_step, IsResting);
    move(row, static_cast<int>(to - begin));
  }
  for (int row = 0; row < plan.rows; ++row) {
    if (!IsTaken(holders[row]) || !holders[row].place->rests) continue;
    move(row, static_cast<int>(std::find_if_not(end_of_step, end, IsTaken) - begin));
  }
  for (const Place* place : moved) plan.moved.push_back(place->rows);
}

std::vector<RowAssignment::Holder> RowAssignment::Holders() {
  std::vector<Holder> holders(rows_);
  for (auto& [id, place] : members_) {
    for (size_t i = 0; i < place.rows.size(); ++i) holders[place.rows[i]] = {&place, i};
  }
  return holders;
}

int RowAssignment::FreeRow() {
  const std::vector<Holder> holders = Holders();
  return static_cast<int>(std::find_if_not(holders.begin(), holders.end(), IsTaken) -
                          holders.begin());
}

bool RowAssignment::LeaveOut(int rows) {
  absl::MutexLock lock(&mutex_);
  const auto stepping = std::count_if(members_.begin(), members_.end(),
                                      [](const auto& entry) { return !entry.second.rests; });
  if (stepping < 2) return false;
  most_rows_ = rows - 1;
  steps_until_more_ = kStepsWithFewer;
  if (!std::exchange(told_, true)) too_many_rows_ = rows;
  return true;
}

// Members that stepped have used their noise.
int RowAssignment::NoteStep(bool stepped) {
  absl::MutexLock lock(&mutex_);
  for (auto& [id, place] : members_) place.has_noise = place.has_noise && place.rests;
  if (stepped && steps_until_more_ > 0 && --steps_until_more_ == 0) most_rows_ = kUnlimited;
  return std::exchange(too_many_rows_, 0);
}

}  // namespace latentd::pipeline
