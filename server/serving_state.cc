#include "server/serving_state.h"

#include "core/base/error_details.h"

namespace latentd::server {
namespace {

absl::Status Unavailable(absl::string_view message, absl::string_view reason,
                         absl::Duration retry) {
  return WithRetryDelay(WithReason(absl::UnavailableError(message), reason), retry);
}

}  // namespace

absl::Status CheckServing(engine::State state) {
  switch (state) {
    case engine::State::kReady:
      return absl::OkStatus();
    case engine::State::kDraining:
      return Unavailable("the server is stopping", "DRAINING", absl::Seconds(5));
    case engine::State::kLoading:
    case engine::State::kFailed:
      break;
  }
  return Unavailable("the server is loading its models", "LOADING", absl::Seconds(2));
}

}  // namespace latentd::server
