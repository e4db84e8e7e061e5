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
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "core/batching/admit/return_margin.h"

namespace latentd::batching {

class Reservations {
 public:
  // Needs of one request or of several.
  struct Room {
    absl::Duration time;  // time of the device
    double pictures = 0;
    double bytes = 0;
  };

  // Hashes that tell a request from others; equal ones are told apart by their number only.
  struct Who {
    uint64_t caller = 0, content = 0;
  };

  // Keeps `room` for the request `who`, which may come back after `delay`. More of those that could
  // have waited so long for their `deadline` come than of others. Ignored where too many others, or
  // too many equal ones, have been told. `reckoned` is kept for Take.
  void Add(const Who& who, absl::Time now, absl::Duration delay, absl::Time deadline,
           const Room& room, const ReturnMargin::Delay& reckoned);

  // A request asks. If one like it was told to come and it is time, returns how the delay was
  // reckoned: its room is its own then. Too early, it gives up what it was told before, unless that
  // was a moment ago, or several like it have been told: those are others.
  std::optional<ReturnMargin::Delay> Take(const Who& who, absl::Time now);

  // Probable needs of those that may come by `until`: as many of a caller's as did come that it was
  // told before, and as if they came at any moment of their time alike. One still absent when half
  // of it is over counts half, and of its time only the part that falls before `until`: or an idle
  // server would refuse short requests for others that are not there. Each caller's pictures (by
  // its hash) count up to so many.
  absl::Duration ExpectedTime(absl::Time now, absl::Time until);
  double ExpectedPictures(absl::Time now, absl::Time until,
                          absl::FunctionRef<double(uint64_t caller)> most);
  double ExpectedPicturesOfCaller(absl::Time now, absl::Time until, uint64_t caller);
  double ExpectedBytes(absl::Time now, absl::Time until);

  // Needs of all that have been told and have not come, so many as do come but seldom more: later
  // ones come behind them. All of the callers of whom nothing is known come.
  Room Told(absl::Time now);
  Room ToldOfCaller(absl::Time now, uint64_t caller);

 private:
  // When one may come, and what it needs then. In seconds, of the clock's time and of the device's:
  // under overload thousands are summed for each request that asks.
  struct Window {
    uint64_t content = 0;
    absl::Time told;
    double from = 0, until = 0;
    double time = 0, pictures = 0, bytes = 0;
    bool in_time = false;  // before its deadline
    bool came = false;
    bool has_equal = false;  // or had, when it was told or since
    ReturnMargin::Delay reckoned;
  };
  // Part that comes of those told. The newest counts most.
  class Share {
   public:
    void Learn(bool came);
    double likely() const { return came_ + unknown_ / 2; }
    double most() const { return came_ + unknown_; }

   private:
    double came_ = 0;
    double unknown_ = 1;  // weight of what is not known yet
  };
  // A caller's, and what is known of it: clients differ in whether they come at all.
  struct Caller {
    std::vector<Window> windows;
    std::array<Share, 2> shares;  // by in_time
  };
  static constexpr size_t kMost = 8192;         // windows
  static constexpr size_t kMostEqual = 64;      // windows of equal requests
  static constexpr size_t kMostCallers = 1024;  // as long as they have no windows
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  static Room Sum(const Caller& caller, const std::array<double, 2>& shares, absl::Time now,
                  absl::Time until);
  static Room ExpectedOf(const Caller& caller, absl::Time now, absl::Time until);
  static Room ToldOf(const Caller& caller, absl::Time now);
  static std::vector<Window*> Like(Caller& caller, uint64_t content);
  void DropLate(double now);

  absl::flat_hash_map<uint64_t, Caller> callers_;
  size_t count_ = 0;             // number of all windows
  double first_until_ = kNever;  // the earliest end of theirs, or earlier
};

}  // namespace latentd::batching
