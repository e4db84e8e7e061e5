// Assigns rows of a StepLane to pictures, and chooses the pictures of its next step: those
// that are asked for, or as many of them as can be evaluated. Decides, and computes nothing.
//
// A picture keeps its rows until fewer would do: then those behind them move to where others left.
// The others rest: they keep their rows, behind the active ones. Where a number of rows has
// turned out too many for the memory (LeaveOut), fewer take part until others are through, or until
// some steps have been made and more rows are tried again.
//
// Threads: any; one at a time plans steps.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"

namespace latentd::pipeline {

class RowAssignment {
 public:
  using Member = uint64_t;
  using Rows = absl::InlinedVector<int, 2>;

  struct Move {
    int from, to;
    bool back = false;  // the contents of `to` go to `from`
  };
  // Rows that the next step is to compute, and moves that have to come before.
  struct Plan {
    int rows = 0;
    int taken = 0;  // taken rows of these
    std::vector<Move> moves;
    std::vector<Rows> moved;  // present rows of those that moved
  };

  // A lane with so many rows.
  explicit RowAssignment(int rows) : rows_(rows) {}

  // A number of rows that can be evaluated; more than the lane has are of no use to it.
  void AddCount(int rows) ABSL_LOCKS_EXCLUDED(mutex_);

  // Rows for a picture that joins, and what it will take at most later; nullopt where there are not
  // so many, or no step of so many rows.
  std::optional<Member> Take(int rows, int most_rows) ABSL_LOCKS_EXCLUDED(mutex_);
  // One that has joined, of those that are kept for it; it keeps its last row, and no more than
  // `most_rows` from now on.
  void Change(Member member, int rows, int most_rows) ABSL_LOCKS_EXCLUDED(mutex_);
  void Free(Member member) ABSL_LOCKS_EXCLUDED(mutex_);

  Rows RowsOf(Member member) const ABSL_LOCKS_EXCLUDED(mutex_);
  bool Rests(Member member) const ABSL_LOCKS_EXCLUDED(mutex_);  // in the last step
  int taken() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Rows of one evaluation, at most, as far as is known.
  int capacity() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The least number of rows that covers so many, or as many as can be evaluated. REQUIRES: there
  // is one.
  int CountFor(int taken) const ABSL_LOCKS_EXCLUDED(mutex_);

  // True if noise is to be drawn for the member's next step: not again for one that rested, which
  // has what was drawn then.
  bool TakeNoise(Member member) ABSL_LOCKS_EXCLUDED(mutex_);

  // Plans a step of `wanted`, the first ones first; empty: of all. One steps in any case. REQUIRES
  // for `wanted`: a number of rows was added that is just what the first has, so that the others
  // have room behind it.
  Plan PlanStep(absl::Span<const Member> wanted) ABSL_LOCKS_EXCLUDED(mutex_);
  // There is no memory for a step of so many rows. False: none in it can do with fewer.
  bool LeaveOut(int rows) ABSL_LOCKS_EXCLUDED(mutex_);
  // After a step that was enqueued, or failed. Gives the number of rows that turned out too many,
  // to be told once; 0: none.
  int NoteStep(bool stepped) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  static constexpr int kUnlimited = std::numeric_limits<int>::max();

  struct Place {
    Rows rows;
    int kept = 0;            // rows that are its own, those that it has among them
    bool has_noise = false;  // drawn for its next step
    bool rests = false;
  };
  // Holder of a row.
  struct Holder {
    Place* place = nullptr;  // null: it is free
    size_t index = 0;        // index among its rows
  };
  static bool IsTaken(const Holder& holder) { return holder.place != nullptr; }
  static bool IsResting(const Holder& holder) { return IsTaken(holder) && holder.place->rests; }

  std::vector<Holder> Holders() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Place*> ByLastRow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int FreeRow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int Taken() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  int Capacity() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  int Covering(int taken) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool CanStep(int rows) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  std::vector<Place*> PlacesOf(absl::Span<const Member> wanted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Choose(absl::Span<const Member> wanted, Plan& plan) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Arrange(Plan& plan) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int rows_;
  mutable absl::Mutex mutex_;
  std::set<int> counts_ ABSL_GUARDED_BY(mutex_);  // numbers that can be evaluated
  std::map<Member, Place> members_ ABSL_GUARDED_BY(mutex_);
  Member next_ ABSL_GUARDED_BY(mutex_) = 1;
  int most_rows_ ABSL_GUARDED_BY(mutex_) = kUnlimited;  // the most that there is memory to evaluate
  int steps_until_more_ ABSL_GUARDED_BY(mutex_) = 0;    // are tried again
  int too_many_rows_ ABSL_GUARDED_BY(mutex_) = 0;       // to be told
  bool told_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace latentd::pipeline
