// Requests that were refused and told when to come back, so that there is room for them then: those
// that come in between without having been told are measured with what these will need.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

namespace latentd::batching {

class Reservations {
 public:
  struct Room {
    absl::Duration time;  // of the device
    double pictures = 0;
  };

  // A request, and hashes of what tells it from others.
  struct Who {
    uint64_t caller = 0, content = 0;

    bool operator==(const Who&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Who& who) {
      return H::combine(std::move(h), who.caller, who.content);
    }
  };

  // The request `who` may come back after `delay`, and then needs `room`; what it was told before
  // is forgotten. Ignored where too many others have been told.
  void Add(const Who& who, absl::Time now, absl::Duration delay, const Room& room);

  // It came: whether it had been told, and it is time. Its room is its own then.
  bool Take(const Who& who, absl::Time now);

  // What those need that may come by `until`, but not `who`, as far as those did come that were
  // told before, and as if they came at any moment of their time alike. Who has not come when half
  // of it is over counts half, and of the device's time only the part counts that falls before
  // `until`: or an idle server would refuse short requests for others that are not there.
  Room Expected(absl::Time now, absl::Time until, const Who& who);
  // The same of its caller's requests alone.
  Room ExpectedOfCaller(absl::Time now, absl::Time until, const Who& who);

 private:
  // When one may come, and what it needs then. In seconds, of the clock's time and of the device's:
  // under overload thousands are summed for each request that asks.
  struct Window {
    double from = 0, until = 0;
    double time = 0, pictures = 0;
  };
  static constexpr size_t kMost = 8192;
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  template <typename Counts>
  Room Sum(absl::Time now, absl::Time until, const Counts& counts);
  void DropLate(double now);
  void Learn(bool came);

  absl::flat_hash_map<Who, Window> windows_;
  double first_until_ = kNever;  // of windows_, or earlier
  double share_that_comes_ = 0.5;
};

}  // namespace latentd::batching
