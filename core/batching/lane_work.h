// What there is to do in one lane: of those who have begun there, and of those who may.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "core/batching/costs.h"
#include "core/batching/entry.h"
#include "core/batching/unit.h"

namespace latentd::batching {

class LaneWork {
 public:
  using Members = absl::InlinedVector<const Entry*, kMostRows>;

  LaneWork(const Lane& lane, Sharing sharing) : lane_(lane), sharing_(sharing) {}

  // All who have begun, before anybody is added: rows are kept for them.
  void KeepRows(const Entry& begun);
  // In the order in which they go, with their places in it. Who waits is left out where there are
  // too few rows, or were for somebody before.
  void Add(const Entry& entry, size_t place);
  // Only those go on to their steps, or take any, whose rows pay off for the first.
  void KeepWhoPays(const Costs& costs);

  const Lane& lane() const { return lane_; }
  Sharing sharing() const { return sharing_; }
  double weight() const { return weight_; }  // the greatest of its pictures'
  bool any() const { return first_ != nullptr; }
  // Who goes first, and its place in the order.
  const Entry* first() const { return first_; }
  size_t first_place() const { return first_place_; }

  const Entry* decode() const { return decode_; }    // the first
  const Entry* prepare() const;                      // whose prompts or init image are next
  const Entry* preview() const { return preview_; }  // whose last preview is longest ago
  // Who takes the next evaluation: all of them, or as many as it has rows. In turns those first who
  // have waited longest for one; by deadline in order.
  Members WhoSteps() const;

 private:
  // Rows of one evaluation, by graphs and memory; and those that pictures may have, which are more
  // only where somebody may have to pass others.
  int limit() const { return std::min(rows_, capacity_); }
  int places() const {
    if (sharing_ == Sharing::kInTurns) return limit();
    return std::min(std::max(limit(), most_places_), places_);
  }
  Members Steppers() const;
  Members InTurns(Members steppers) const;
  Members ThatFit(Members members) const;
  void NoteFirst(const Entry& entry, size_t place);
  void NoteRows(const Entry& entry);

  Lane lane_;
  Sharing sharing_;
  const Entry* first_ = nullptr;
  size_t first_place_ = std::numeric_limits<size_t>::max();
  const Entry* decode_ = nullptr;
  const Entry* preview_ = nullptr;
  std::vector<const Entry*> before_decode_;  // who has steps to take
  int rows_ = 0;
  int capacity_ = kMostRows;
  int most_places_ = 0;
  int places_ = std::numeric_limits<int>::max();  // as far as is known of the lane that is there
  int rows_kept_ = 0;
  bool full_ = false;
  double weight_ = 0;
};

}  // namespace latentd::batching
