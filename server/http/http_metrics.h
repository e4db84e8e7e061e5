// Metrics of the port: connections, responses and bytes. Requests for pictures are counted as
// gRPC's are (server/generation/request_metrics.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/metrics/registry.h"
#include "server/http/routes/router.h"

namespace latentd::server::http {

// Thread-safe.
class HttpMetrics {
 public:
  // The registry outlives it, and it outlives what KeepOpen returns.
  explicit HttpMetrics(metrics::Registry& registry);

  // Counts a connection as open until the last copy of what it returns is gone.
  std::shared_ptr<const void> KeepOpen() const;

  void CountAccepted() const { accepted_.Increment(); }

  enum class Refusal : uint8_t { kLimit, kTls, kMemory };
  void CountRefused(Refusal why, int connections = 1) const;

  // `route` is null where the request was refused before one was found.
  void CountResponse(const Route* route, int code) const;

  void CountReceived(size_t bytes) const { received_.Increment(static_cast<double>(bytes)); }
  void CountSent(size_t bytes) const { sent_.Increment(static_cast<double>(bytes)); }

 private:
  metrics::Registry& registry_;
  metrics::Gauge& open_;
  metrics::Counter &accepted_, &received_, &sent_;
};

}  // namespace latentd::server::http
