// Requests that were refused and told when to come back, so that there is room for them then: those
// that come in between without having been told are measured with what these will need.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>

#include "absl/time/time.h"

namespace latentd::batching {

class Reservations {
 public:
  struct Room {
    absl::Duration time;  // of the device
    double pictures = 0;
  };

  // The request `who` may come back after `delay`, and then needs `room`; what it was told before
  // is forgotten. Ignored where too many others have been told.
  void Add(uint64_t who, absl::Time now, absl::Duration delay, const Room& room);

  // It came: whether it had been told, and it is time. Its room is its own then.
  bool Take(uint64_t who, absl::Time now);

  // What those need that may come by `until`, as far as those did come that were told before; but
  // not `who`. Of the device's time only the part of them that comes by then, if they come at any
  // moment alike: in a short time little is kept free for who may come at any of some seconds, or
  // short requests would be refused for others that are not there.
  Room Expected(absl::Time now, absl::Time until, uint64_t who);

 private:
  struct Reservation {
    uint64_t who;
    absl::Time from, until;
    Room room;
  };
  static constexpr size_t kMost = 1024;

  void DropLate(absl::Time now);
  void Learn(bool came);

  std::list<Reservation> reservations_;
  double share_that_comes_ = 0.5;
};

}  // namespace latentd::batching
