// The work in one lane: of the pictures that have begun there, and of those that may.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "core/batching/predict/costs.h"
#include "core/batching/predict/entry.h"
#include "core/batching/predict/unit.h"

namespace latentd::batching {

class LaneWork {
 public:
  using Members = absl::InlinedVector<const Entry*, kMostRows>;

  LaneWork(const Lane& lane, Sharing sharing) : lane_(lane), sharing_(sharing) {}

  // Keeps rows for a begun picture. All are given before any is added.
  void KeepRows(const Entry& begun);
  // A picture passes others, in this lane: the others share an evaluation as if it had no rows.
  // Likewise called before any is added.
  void LetPass(const Entry& passes);
  // In the order in which they go, with their places in it. A waiting picture is left out if there
  // are too few rows, or were for an earlier one.
  void Add(const Entry& entry, size_t place);
  // Only those go on to their steps, or take any, whose rows pay off for the first; of those whose
  // steps are next, only those like the first of them. By deadline.
  void KeepWhoPays(const Costs& costs);

  const Lane& lane() const { return lane_; }
  Sharing sharing() const { return sharing_; }
  double weight() const { return weight_; }  // the greatest of its pictures'
  bool any() const { return first_ != nullptr; }
  // The picture that goes first, and its place in the order.
  const Entry* first() const { return first_; }
  size_t first_place() const { return first_place_; }

  const Entry* decode() const { return decode_; }    // the first
  const Entry* prepare() const;                      // whose prompts or init image are next
  const Entry* preview() const { return preview_; }  // whose last preview is longest ago
  // Pictures of the next evaluation: all, or as many as it has rows. In turns those first that
  // have waited longest for one; by deadline in order.
  // A passing picture leaves the evaluation to them where it has no rows for all. All are to take a
  // shallow one, or none: in turns those go first that are, since each needs another one soon, and
  // all take that together, but for a passing picture that would take it without them; by deadline
  // those like the first.
  Members WhoSteps() const;
  // Pictures with which the one that passes others takes its next evaluation.
  Members WhoGoesAlong(const Costs& costs) const;
  // True if rows are kept for it, or there are some for a picture that steps without others.
  bool HasRoomToPass(const Entry& entry) const {
    const int places = std::max(all_places(), std::min(entry.need.lane_places, places_));
    return entry.started || rows_begun_ + entry.need.most_rows() <= places;
  }

 private:
  // Rows of one evaluation, by graphs and memory; those that the lane has; and those that pictures
  // may have that do not pass others.
  int limit() const { return std::min(rows_, capacity_); }
  int all_places() const { return std::min(std::max(limit(), most_places_), places_); }
  int places() const { return sharing_ == Sharing::kByDeadline ? all_places() : limit(); }
  bool FirstStepIsShallow() const;  // the first picture's whose steps are next
  Members Steppers() const;
  Members SteppersOf(bool shallow) const;
  Members InTurns(Members steppers) const;
  bool HasRoomFor(const Entry& entry) const;
  Members ThatFit(Members members) const;
  void NoteFirst(const Entry& entry, size_t place);
  void NoteRows(const Entry& entry);

  Lane lane_;
  Sharing sharing_;
  const Entry* passes_ = nullptr;
  const Entry* first_ = nullptr;
  size_t first_place_ = std::numeric_limits<size_t>::max();
  const Entry* decode_ = nullptr;
  const Entry* preview_ = nullptr;
  std::vector<const Entry*> before_decode_;  // pictures that have steps to take
  int rows_ = 0;
  int capacity_ = kMostRows;
  int most_places_ = 0;
  int places_ = std::numeric_limits<int>::max();  // as far as is known of the lane that is there
  int rows_kept_ = 0;                             // without those of passing pictures
  int rows_begun_ = 0;                            // rows of all begun pictures
  bool full_ = false;
  double weight_ = 0;
};

}  // namespace latentd::batching
