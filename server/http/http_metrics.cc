#include "server/http/http_metrics.h"

#include "absl/strings/str_cat.h"

namespace latentd::server::http {
namespace {

constexpr const char* LabelOf(HttpMetrics::Refusal why) {
  switch (why) {
    case HttpMetrics::Refusal::kLimit:
      return "limit";
    case HttpMetrics::Refusal::kTls:
      return "tls";
    case HttpMetrics::Refusal::kMemory:
      break;
  }
  return "memory";
}

}  // namespace

HttpMetrics::HttpMetrics(metrics::Registry& registry)
    : registry_(registry),
      open_(registry.GetGauge(metrics::kHttpConnections)),
      accepted_(registry.GetCounter(metrics::kHttpConnectionsAccepted)),
      received_(registry.GetCounter(metrics::kHttpBytes, {"received"})),
      sent_(registry.GetCounter(metrics::kHttpBytes, {"sent"})) {}

std::shared_ptr<const void> HttpMetrics::KeepOpen() const {
  open_.Increment();
  return {this, [](const HttpMetrics* metrics) { metrics->open_.Decrement(); }};
}

void HttpMetrics::CountRefused(Refusal why, int connections) const {
  registry_.GetCounter(metrics::kHttpConnectionsRefused, {LabelOf(why)}).Increment(connections);
}

void HttpMetrics::CountResponse(const Route* route, int code) const {
  const char* api = route == nullptr ? metrics::kOther : route->api;
  registry_.GetCounter(metrics::kHttpResponses, {api, absl::StrCat(code / 100, "xx")}).Increment();
}

}  // namespace latentd::server::http
