// Readiness of the engine for work, and its error otherwise: one text, reason and retry
// delay for all callers. In a header, since server/ says the same without linking the engine.
//
// Thread-safe: free functions without state.
#pragma once

#include <algorithm>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/errors/error_details.h"
#include "core/device/device_fault.h"
#include "core/engine/api/status.h"

namespace latentd::engine {

// UNAVAILABLE with reason LOADING and a retry delay.
inline absl::Status LoadingError() {
  return WithRetryDelay(
      WithReason(absl::UnavailableError("the server is loading its models"), "LOADING"),
      absl::Seconds(2));
}

// Reason DRAINING and a retry delay, by when a balancer sends elsewhere: UNAVAILABLE for what comes
// now, kCancelled for what was not done in time.
inline absl::Status DrainingError(absl::StatusCode code = absl::StatusCode::kUnavailable) {
  return WithRetryDelay(WithReason(absl::Status(code, "the server is stopping"), "DRAINING"),
                        absl::Seconds(1));
}

// UNAVAILABLE with reason DEVICE_FAULT and a retry delay: what runs and what comes after the device
// has failed, by when a balancer sends elsewhere.
inline absl::Status DeviceFaultError() {
  return WithRetryDelay(
      WithReason(absl::UnavailableError("the server's device has failed; the server ends, and has "
                                        "to be started again"),
                 device::kDeviceFault),
      absl::Seconds(1));
}

// The same where other devices of the server go on: what the failed one was drawing, and what it
// alone could draw.
inline absl::Status DeviceLostError() {
  return WithRetryDelay(
      WithReason(absl::UnavailableError("the device that was to draw this has failed; the server's "
                                        "other devices go on, and can draw it"),
                 device::kDeviceFault),
      absl::Seconds(1));
}

// A client's deadline passes before the server's, by what its request took to come: a call that is
// cancelled that shortly before its deadline has come to it.
inline constexpr absl::Duration kDeadlineSlack = absl::Milliseconds(100);

// OK in kReady and kDegraded, else one of the errors above.
inline absl::Status CheckServing(const ServerStatus& status) {
  switch (status.state) {
    case State::kReady:
    case State::kDegraded:
      return absl::OkStatus();
    case State::kDraining:
      return DrainingError();
    case State::kLoading:
    case State::kWarming:
    case State::kFailed:
      break;
  }
  return status.device_fault.empty() ? LoadingError() : DeviceFaultError();
}

// True if there is a bucket that pictures can be drawn in, as health reports.
inline bool CanServe(const ServerStatus& status) {
  if (status.state == State::kReady) return true;
  const auto is_ready = [](const ServerStatus::Bucket& bucket) { return bucket.ready; };
  return status.state == State::kDegraded &&
         std::any_of(status.buckets.begin(), status.buckets.end(), is_ready);
}

}  // namespace latentd::engine
