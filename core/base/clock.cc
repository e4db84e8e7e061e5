#include "core/base/clock.h"

#include <chrono>

#include "absl/time/clock.h"

namespace latentd {
namespace {

class MachineClock : public Clock {
 public:
  absl::Time Monotonic() const override {
    const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
    return absl::UnixEpoch() + absl::FromChrono(since_boot);
  }
  absl::Time Wall() const override { return absl::Now(); }
};

}  // namespace

const Clock& SystemClock() {
  static const MachineClock clock;
  return clock;
}

}  // namespace latentd
