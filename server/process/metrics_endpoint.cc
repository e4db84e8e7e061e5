#include "server/process/metrics_endpoint.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <exception>
#include <future>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "core/base/status_macros.h"
#include "server/process/health_pages.h"
#include "server/process/log.h"
#include "server/process/process_metrics.h"

namespace latentd::server::process {
namespace {

using MetricFamilies = std::vector<prometheus::MetricFamily>;

MetricFamilies CollectNow(engine::Engine& engine) {
  engine.RefreshMetrics();
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

// On a thread of its own: those of the pages have small stacks.
MetricFamilies Collect(engine::Engine& engine) {
  try {
    return std::async(std::launch::async, [&engine] { return CollectNow(engine); }).get();
  } catch (const std::exception&) {  // there may be no more threads, or no memory
    return {};
  }
}

Page MetricsPage(engine::Engine& engine) {
  return {"/metrics", [&engine] {
            return Page::Text{.text = prometheus::TextSerializer().Serialize(Collect(engine)),
                              .type = "text/plain; version=0.0.4; charset=utf-8"};
          }};
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(const std::string& listen,
                                                                        engine::Engine& engine,
                                                                        const Health& health) {
  std::vector<Page> pages = HealthPages(health);
  pages.push_back(MetricsPage(engine));
  ASSIGN_OR_RETURN(std::unique_ptr<HttpPages> http, HttpPages::Listen(listen, std::move(pages)));
  return absl::WrapUnique(new MetricsEndpoint(std::move(http)));
}

}  // namespace latentd::server::process
