#include "server/generation/request_metrics.h"

#include "core/base/errors/error_details.h"

namespace latentd::server::generation {
namespace {

const char* LabelOf(const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) return "invalid";
  if (absl::IsResourceExhausted(status)) return "oom";
  const std::string reason = GetReason(status);
  if (reason == "LOADING") return "loading";
  return reason == "DRAINING" ? "draining" : metrics::kOther;
}

}  // namespace

void CountRefused(metrics::Registry& registry, const absl::Status& status) {
  metrics::Counter& received = registry.GetCounter(metrics::kRequestsReceived);
  metrics::Counter& rejected = registry.GetCounter(metrics::kRequestsRejected, {LabelOf(status)});
  {
    const metrics::Registry::Change change(registry);
    received.Increment();
    rejected.Increment();
  }
  if (absl::IsResourceExhausted(status)) {
    registry.GetCounter(metrics::kOutOfMemory, {"admission"}).Increment();
  }
}

void CountEnded(metrics::Registry& registry, const EndedCall& call) {
  registry.GetCounter(metrics::kRequests, {call.method, absl::StatusCodeToString(call.code)})
      .Increment();
  if (!call.accepted) return;
  registry.GetHistogram(metrics::kRequestSeconds, {call.method, call.bucket})
      .Observe(absl::ToDoubleSeconds(call.duration));
}

void CountRefusedKey(metrics::Registry& registry, Transport transport, bool has_shown_one) {
  registry
      .GetCounter(metrics::kApiKeysRefused, {transport == Transport::kGrpc ? "grpc" : "http",
                                             has_shown_one ? "unknown" : "missing"})
      .Increment();
}

}  // namespace latentd::server::generation
