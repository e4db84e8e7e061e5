#include "core/engine/requests/request_counts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/out_of_memory.h"
#include "core/device/device_fault.h"

namespace latentd::engine {
namespace {

constexpr char kOutOfMemory[] = "oom";
constexpr const char* kRejections[] = {"queue_full", "predicted_overrun", "draining",
                                       "loading",    "cold_bucket",       "invalid",
                                       kOutOfMemory, metrics::kOther};

const char* FindRejection(const absl::Status& status) {
  const std::string reason = GetReason(status);
  if (reason == "QUEUE_FULL") return "queue_full";
  if (reason == "PREDICTED_OVERRUN") return "predicted_overrun";
  if (reason == "DRAINING") return "draining";
  if (absl::IsResourceExhausted(status)) return kOutOfMemory;
  if (reason == device::kDeviceFault) return metrics::kOther;
  if (reason == "BUCKET_COLD" || reason == "COMPILE_FORBIDDEN") return "cold_bucket";
  if (absl::IsUnavailable(status)) return "loading";
  return absl::IsInvalidArgument(status) ? "invalid" : metrics::kOther;
}

}  // namespace

const char* RejectionOf(const absl::Status& status) {
  const char* rejection = kOutOfMemory;
  CatchOutOfMemory([&] { rejection = FindRejection(status); }).IgnoreError();  // oom, then
  return rejection;
}

RequestCounts::RequestCounts(metrics::Registry& registry)
    : registry_(registry),
      received_(registry.GetCounter(metrics::kRequestsReceived)),
      completed_(registry.GetCounter(metrics::kRequestsFinished, {"completed"})),
      failed_(registry.GetCounter(metrics::kRequestsFinished, {"failed"})),
      out_of_memory_(registry.GetCounter(metrics::kOutOfMemory, {"admission"})),
      queued_(MakePhase("queued")),
      running_(MakePhase("running")) {
  for (const char* rejection : kRejections) {
    rejected_.emplace_back(rejection,
                           &registry.GetCounter(metrics::kRequestsRejected, {rejection}));
  }
}

RequestCounts::Phase RequestCounts::MakePhase(const char* name) const {
  Phase phase{.cancelled = &registry_.GetCounter(metrics::kRequestsCancelled, {name}),
              .late = &registry_.GetCounter(metrics::kDeadlineMisses, {name})};
  for (size_t i = 0; i < kPriorities; ++i) {
    const std::string priority = absl::StrCat(kMinPriority + static_cast<int>(i));
    phase.in_flight[i] = &registry_.GetGauge(metrics::kRequestsInFlight, {name, priority});
  }
  return phase;
}

metrics::Gauge& RequestCounts::InFlight(bool has_begun, int priority) const {
  const int in_range = std::clamp(priority, kMinPriority, kMaxPriority);
  return *(has_begun ? running_ : queued_).in_flight[in_range - kMinPriority];
}

metrics::Counter& RequestCounts::EndOf(bool had_begun, const absl::Status& end) const {
  const Phase& phase = had_begun ? running_ : queued_;
  if (absl::IsCancelled(end)) return *phase.cancelled;
  if (absl::IsDeadlineExceeded(end)) return *phase.late;
  return end.ok() ? completed_ : failed_;
}

metrics::Counter& RequestCounts::Rejected(const char* rejection) const {
  const auto found = std::find_if(rejected_.begin(), rejected_.end(), [&](const auto& one) {
    return absl::string_view(one.first) == rejection;
  });
  return found == rejected_.end() ? *rejected_.back().second : *found->second;
}

void RequestCounts::Refused(const char* rejection) {
  const metrics::Registry::Change change(registry_);
  received_.Increment();
  Rejected(rejection).Increment();
  if (absl::string_view(rejection) == kOutOfMemory) out_of_memory_.Increment();
}

void RequestCounts::Accepted(int priority) {
  const metrics::Registry::Change change(registry_);
  received_.Increment();
  InFlight(/*has_begun=*/false, priority).Increment();
}

void RequestCounts::Began(int priority) {
  const metrics::Registry::Change change(registry_);
  InFlight(/*has_begun=*/false, priority).Decrement();
  InFlight(/*has_begun=*/true, priority).Increment();
}

void RequestCounts::Ended(int priority, bool had_begun, const absl::Status& end,
                          const char* rejection) {
  const metrics::Registry::Change change(registry_);
  InFlight(had_begun, priority).Decrement();
  (rejection != nullptr ? Rejected(rejection) : EndOf(had_begun, end)).Increment();
  if (rejection != nullptr && absl::string_view(rejection) == kOutOfMemory) {
    out_of_memory_.Increment();
  }
}

}  // namespace latentd::engine
