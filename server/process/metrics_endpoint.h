// The HTTP port of --metrics-listen: /metrics for Prometheus, the engine's metrics and the
// process's, and beside it the pages for probes (health_pages.h).
//
// Listens from Start until it is destroyed, which waits for scrapes in flight and takes up to
// two seconds even without: the library looks that often. Thread-safe.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/engine/engine.h"
#include "server/process/health.h"

namespace latentd::server::process {

class MetricsEndpoint {
 public:
  // `listen` is HOST:PORT. FAILED_PRECONDITION says why it cannot be listened on. `engine` and
  // `health` must outlive the endpoint.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(const std::string& listen,
                                                                engine::Engine& engine,
                                                                const Health& health);

  // With the port that was chosen where 0 was asked for.
  const std::string& address() const { return address_; }

 private:
  MetricsEndpoint(std::string address, std::shared_ptr<prometheus::Collectable> collectable,
                  std::unique_ptr<prometheus::Exposer> exposer);

  const std::string address_;
  // The exposer forgets what it does not keep alive.
  const std::shared_ptr<prometheus::Collectable> collectable_;
  const std::unique_ptr<prometheus::Exposer> exposer_;  // last: its threads use what is above
};

}  // namespace latentd::server::process
