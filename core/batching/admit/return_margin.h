// How much longer than foreseen clients are told to wait that come behind others which were told to
// come: what those take differs from what is foreseen. Learned from requests that came when told.
//
// Not thread-safe.
#pragma once

#include "absl/time/time.h"

namespace latentd::batching {

class ReturnMargin {
 public:
  // A delay that a client was told, and what it was reckoned from.
  struct Delay {
    double factor = 1;     // factor at that time
    absl::Duration ahead;  // work that was there, and of those told before
    double told_part = 0;  // part of `ahead` that belongs to those told before
    absl::Duration alone;  // time on the device, as the client's request was foreseen to take then
  };

  double factor() const { return factor_; }

  // A client was refused that came when told. It would have had to come so much later; `alone` is
  // what its request is foreseen to take now: a device that has become slower says nothing about
  // delays that are told from now on.
  void LearnTooShort(const Delay& delay, absl::Duration late, absl::Duration alone);

  // A client came when told, and the device had had nothing to do for so long.
  void LearnTooLong(const Delay& delay, absl::Duration idle);

 private:
  static constexpr double kLeast = 1.15, kMost = 5;

  double factor_ = kLeast;
};

}  // namespace latentd::batching
