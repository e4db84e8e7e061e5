// How a short request passes long ones: half of the device's time is for the shortest request, the
// other half is shared as if none passed. So a request takes at most about twice as long as it
// would if it were the shortest, and at most twice as long as it would if none were.
//
// Not thread-safe; the functions are pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/batching/predict/costs.h"
#include "core/batching/predict/unit.h"

namespace latentd::batching {

// Factors by which a picture's steps may be longer for others that share them: beyond the first
// they hold it up, and it passes them; beyond the second it takes no more of them along then.
inline constexpr double kHeldUp = 2.2;
inline constexpr double kTakenAlong = 1.5;
// Factor by which rows cost much less together.
inline constexpr double kGain = 1.35;

// How much a picture asks for before it begins: evaluations by their rows and pixels, of which its
// prompts and its decoding count as two. Not measured, so that pictures that ask for the same are
// alike from the first on. 0: it is not known yet.
double WorkOf(const Ahead& ahead);

// A picture that may pass others, or be passed.
struct Runner {
  double work = 0;        // work of its request, by its weight; 0: it neither passes nor is passed
  bool begun = false;     // it has had a unit
  bool can_pass = false;  // it could have one now
};

// The first, in their order, of those that ask for least (give or take half of it), if one that has
// begun or comes before it asks for twice as much or more.
std::optional<size_t> WhoPasses(absl::Span<const Runner> runners);

// True if a picture whose step would take `own` waits too long for its next one where it takes part
// in a round of the steps of all lanes.
bool HoldsUp(absl::Duration round, int lanes, absl::Duration own);

// True if so many rows cost much less in the fullest evaluation of their lane than by themselves:
// there they are left together, since passing would take more of the device than it is worth.
bool GainsByCompany(const Lane& lane, int rows, int most, const Costs& costs);

// The number of pictures, from the first on, that go along with the very first, which passes
// others: as many as Costs::CountThatPays says, if its step takes little longer for them.
int CountTakenAlong(const Lane& lane, absl::Span<const int> rows, int limit, const Costs& costs);

// Keeps both halves equal.
class PassingTime {
 public:
  // True if a picture that passes may have a unit that takes this: it may be a round of the others'
  // ahead of them.
  bool Allows(absl::Duration expected, absl::Duration round) const {
    return ahead_ <= absl::ZeroDuration() || ahead_ + expected <= round;
  }
  // A unit begins of one that passes, or of others; or took so much longer than expected.
  void Add(bool passes, absl::Duration time) { ahead_ += passes ? time : -time; }
  // No picture passes now: what the others get meanwhile is not given back.
  void Forget() { ahead_ = std::max(ahead_, absl::ZeroDuration()); }

 private:
  absl::Duration ahead_;  // time that the others have a right to
};

}  // namespace latentd::batching
