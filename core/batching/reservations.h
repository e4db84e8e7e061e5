// Requests that were refused and told when to come back, so that there is room for them then: those
// that come in between without having been told are measured with what these will need.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
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
  };

  // The request `who` may come back after `delay`, and then needs `room`; what it was told before
  // is forgotten. Of those that could have waited so long for their `deadline` more come than of
  // others. Ignored where too many others have been told. `margin`, by which the delay is longer
  // than was foreseen, is kept for Take.
  void Add(const Who& who, absl::Time now, absl::Duration delay, absl::Time deadline,
           const Room& room, double margin);

  // It came: the margin that it was told with, if it was, and it is time. Its room is its own then.
  std::optional<double> Take(const Who& who, absl::Time now);

  // What those need of the device's time that may come by `until`, but not `who`: as many of a
  // caller's as did come that it was told before, and as if they came at any moment of their time
  // alike. Who has not come when half of it is over counts half, and only the part counts that
  // falls before `until`: or an idle server would refuse short requests for others that are not
  // there.
  absl::Duration ExpectedTime(absl::Time now, absl::Time until, const Who& who);
  // The pictures of these, of each caller's (by its hash) at most so many.
  double ExpectedPictures(absl::Time now, absl::Time until, const Who& who,
                          absl::FunctionRef<double(uint64_t caller)> most);
  // Those of its own caller.
  double ExpectedPicturesOfCaller(absl::Time now, absl::Time until, const Who& who);

 private:
  // When one may come, and what it needs then. In seconds, of the clock's time and of the device's:
  // under overload thousands are summed for each request that asks.
  struct Window {
    double from = 0, until = 0;
    double time = 0, pictures = 0;
    double margin = 1;
    bool in_time = false;  // before its deadline
    bool came = false;
  };
  // Of a caller, and what is known of it: clients differ in whether they come at all.
  struct Caller {
    absl::flat_hash_map<uint64_t, Window> windows;  // by content
    std::array<double, 2> shares = {0.5, 0.5};      // that come of those told: by in_time
  };
  static constexpr size_t kMost = 8192;         // windows
  static constexpr size_t kMostCallers = 1024;  // as long as they have no windows
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  static Room ExpectedOf(const Caller& caller, std::optional<uint64_t> except, absl::Time now,
                         absl::Time until);
  static void Learn(Caller& caller, const Window& window);
  void DropLate(double now);

  absl::flat_hash_map<uint64_t, Caller> callers_;
  size_t count_ = 0;             // of all windows
  double first_until_ = kNever;  // of theirs, or earlier
};

}  // namespace latentd::batching
