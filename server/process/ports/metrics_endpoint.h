// The HTTP port of --metrics-listen: /metrics for Prometheus, the engine's metrics and the
// process's, and beside it the pages for probes (health_pages.h).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/engine/engine.h"
#include "server/process/lifetime/health.h"
#include "server/process/ports/http_pages.h"

namespace latentd::server::process {

// Thread-safe; its life is that of the pages (http_pages.h).
class MetricsEndpoint {
 public:
  // `listen` is HOST:PORT. FAILED_PRECONDITION says why it cannot be listened on. `engine` and
  // `health` must outlive the endpoint. `refresh` brings up to date, before each scrape, what the
  // engine's registry holds that is not the engine's.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(
      const std::string& listen, engine::Engine& engine, const Health& health,
      std::function<void()> refresh = [] {});

  // With the port that was chosen where 0 was asked for.
  const std::string& address() const { return pages_->address(); }

 private:
  explicit MetricsEndpoint(std::unique_ptr<HttpPages> pages) : pages_(std::move(pages)) {}

  const std::unique_ptr<HttpPages> pages_;
};

}  // namespace latentd::server::process
