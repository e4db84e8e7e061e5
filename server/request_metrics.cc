#include "server/request_metrics.h"

#include "core/base/error_details.h"

namespace latentd::server {
namespace {

struct Reason {
  const char* name;  // in the status
  const char* label;
};

constexpr Reason kReasons[] = {
    {"QUEUE_FULL", "queue_full"},   {"DRAINING", "draining"}, {"LOADING", "loading"},
    {"BUCKET_COLD", "cold_bucket"}, {"OUT_OF_MEMORY", "oom"}, {"COMPILE_FORBIDDEN", "cold_bucket"},
};

const char* LabelOf(const absl::Status& status) {
  const std::string name = GetReason(status);
  for (const Reason& reason : kReasons) {
    if (name == reason.name) return reason.label;
  }
  return absl::IsInvalidArgument(status) ? "invalid" : metrics::kOther;
}

}  // namespace

void CountAccepted(metrics::Registry& registry) {
  registry.GetGauge(metrics::kRequestsInFlight).Add(1);
}

void CountEnded(metrics::Registry& registry, const EndedCall& call) {
  registry.GetCounter(metrics::kRequests, {call.method, absl::StatusCodeToString(call.code)})
      .Increment();
  if (!call.accepted) {
    registry.GetCounter(metrics::kRequestsRejected, {LabelOf(call.status)}).Increment();
    return;
  }
  registry.GetGauge(metrics::kRequestsInFlight).Add(-1);
  registry.GetHistogram(metrics::kRequestSeconds, {call.method, call.bucket})
      .Observe(absl::ToDoubleSeconds(call.duration));
}

}  // namespace latentd::server
