// Requests, by what has become of them. Whatever a scrape sees, it adds up: those received are
// those refused, in flight, cancelled, late and finished.
//
// Thread-safe. Once it is made it asks for no memory, so that it may be told under the lock that
// decides.
#pragma once

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/engine/api/priority_limits.h"
#include "core/metrics/registry.h"

namespace latentd::engine {

// As the metric names it. A lack of memory to find out is one.
const char* RejectionOf(const absl::Status& status);

class RequestCounts {
 public:
  // `registry` must outlive this.
  explicit RequestCounts(metrics::Registry& registry);

  // It was never in flight. `rejection`: RejectionOf.
  void Refused(const char* rejection);
  void Accepted(int priority);
  void Began(int priority);
  // One that was accepted. `rejection`: it was refused after all; null: it was not.
  void Ended(int priority, bool had_begun, const absl::Status& end, const char* rejection);

 private:
  static constexpr size_t kPriorities = kMaxPriority - kMinPriority + 1;
  struct Phase {
    std::array<metrics::Gauge*, kPriorities> in_flight;
    metrics::Counter* cancelled;
    metrics::Counter* late;
  };

  Phase MakePhase(const char* name) const;
  metrics::Gauge& InFlight(bool has_begun, int priority) const;
  metrics::Counter& EndOf(bool had_begun, const absl::Status& end) const;
  metrics::Counter& Rejected(const char* rejection) const;

  metrics::Registry& registry_;
  metrics::Counter& received_;
  metrics::Counter& completed_;
  metrics::Counter& failed_;
  metrics::Counter& out_of_memory_;
  const Phase queued_, running_;
  std::vector<std::pair<const char*, metrics::Counter*>> rejected_;
};

}  // namespace latentd::engine
