#include "client/rpc/retry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "client/rpc/error_details.h"

namespace latentd::client {
namespace {

constexpr double kServerDelayJitter = 0.25;
// gRPC's words, on this side, for a stream that was reset.
constexpr absl::string_view kReset = "Received RST_STREAM";

bool IsSafe(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::UNKNOWN:
      return true;
    case grpc::StatusCode::CANCELLED:
      return ErrorReason(status) != "STREAM_DROPPED";
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return RetryDelay(status).has_value();
    case grpc::StatusCode::INTERNAL:
      return absl::StartsWith(status.error_message(), kReset);
    default:
      return false;
  }
}

}  // namespace

RetrySchedule::RetrySchedule(const RetryPolicy& policy, std::function<double()> random)
    : random_(std::move(random)),
      longest_pause_(policy.longest_pause),
      retries_(policy.retries),
      pause_(policy.first_pause) {}

std::optional<absl::Duration> RetrySchedule::PauseAfter(const grpc::Status& status,
                                                        absl::Duration left) {
  if (!IsSafe(status) || retries_ == 0) return std::nullopt;
  --retries_;
  const absl::Duration own = pause_ * (0.5 + 0.5 * random_());
  pause_ = std::min(2 * pause_, longest_pause_);
  const std::optional<absl::Duration> asked = RetryDelay(status);
  const absl::Duration pause = asked ? *asked * (1 + kServerDelayJitter * random_()) : own;
  if (pause >= left) return std::nullopt;
  return pause;
}

grpc::Status RetryLoop::Run(absl::Time deadline, const std::function<Attempt()>& attempt) const {
  RetrySchedule schedule(policy, random);
  for (int number = 1;; ++number) {
    const Attempt made = attempt();
    const bool was_never_there =
        number == 1 && (NothingListens(made.status) || IsUnknownHost(made.status));
    const bool is_final =
        made.status.ok() || made.image_received || was_never_there || wait(absl::ZeroDuration());
    if (is_final) return made.status;
    const auto pause = schedule.PauseAfter(made.status, deadline - clock.Monotonic());
    if (!pause) return made.status;
    if (on_retry) on_retry({made.status, number, *pause});
    if (wait(*pause)) return grpc::Status(grpc::StatusCode::CANCELLED, "cancelled by this side");
  }
}

}  // namespace latentd::client
