#include "server/calls/serving_state.h"

#include <algorithm>

#include "core/base/error_details.h"

namespace latentd::server::calls {
namespace {

absl::Status Unavailable(absl::string_view message, absl::string_view reason,
                         absl::Duration retry) {
  return WithRetryDelay(WithReason(absl::UnavailableError(message), reason), retry);
}

}  // namespace

absl::Status CheckServing(engine::State state) {
  switch (state) {
    case engine::State::kReady:
    case engine::State::kDegraded:
      return absl::OkStatus();
    case engine::State::kDraining:
      // By then a balancer sends elsewhere.
      return Unavailable("the server is stopping", "DRAINING", absl::Seconds(1));
    case engine::State::kLoading:
    case engine::State::kWarming:
    case engine::State::kFailed:
      break;
  }
  return Unavailable("the server is loading its models", "LOADING", absl::Seconds(2));
}

bool CanServe(const engine::ServerStatus& status) {
  if (status.state == engine::State::kReady) return true;
  const auto is_ready = [](const engine::ServerStatus::Bucket& bucket) { return bucket.ready; };
  return status.state == engine::State::kDegraded &&
         std::any_of(status.buckets.begin(), status.buckets.end(), is_ready);
}

}  // namespace latentd::server::calls
