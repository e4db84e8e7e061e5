#include "server/process/ports/metrics_endpoint.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "core/base/errors/status_macros.h"
#include "core/base/threads/worker.h"
#include "server/process/logs/log.h"
#include "server/process/memory/process_metrics.h"
#include "server/process/ports/health_pages.h"

namespace latentd::server::process {
namespace {

using MetricFamilies = std::vector<prometheus::MetricFamily>;

MetricFamilies CollectNow(engine::Engine& engine, const std::function<void()>& refresh) {
  engine.RefreshMetrics();
  refresh();
  MetricFamilies families = engine.metrics().Collect();
  for (prometheus::MetricFamily& family : families) {
    if (family.name != metrics::kLogLinesDropped.name) continue;
    family.metric.front().counter.value = static_cast<double>(DroppedLogLines());
  }
  for (prometheus::MetricFamily& family : CollectProcessMetrics()) {
    families.push_back(std::move(family));
  }
  return families;
}

// Collects on a thread of its own, which is there from the start: those of the pages have small
// stacks.
class Collector {
 public:
  Collector(engine::Engine& engine, std::function<void()> refresh)
      : engine_(engine), refresh_(std::move(refresh)) {}

  MetricFamilies Collect() {
    MetricFamilies families;
    collecting_.Run([&] { families = CollectNow(engine_, refresh_); });
    return families;
  }

 private:
  engine::Engine& engine_;
  const std::function<void()> refresh_;
  Worker collecting_{"scrapes"};
};

Page MetricsPage(engine::Engine& engine, std::function<void()> refresh) {
  return {"/metrics", [collector = std::make_shared<Collector>(engine, std::move(refresh))] {
            return Page::Text{.text = prometheus::TextSerializer().Serialize(collector->Collect()),
                              .type = "text/plain; version=0.0.4; charset=utf-8"};
          }};
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const std::string& listen, engine::Engine& engine, const Health& health,
    std::function<void()> refresh) {
  std::vector<Page> pages = HealthPages(health);
  pages.push_back(MetricsPage(engine, std::move(refresh)));
  ASSIGN_OR_RETURN(std::unique_ptr<HttpPages> http, HttpPages::Listen(listen, std::move(pages)));
  return absl::WrapUnique(new MetricsEndpoint(std::move(http)));
}

}  // namespace latentd::server::process
