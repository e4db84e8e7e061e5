#include "core/engine/requests/cancel_cause.h"

#include "core/base/errors/error_details.h"
#include "core/engine/api/serving.h"

namespace latentd::engine {

absl::Status StatusOf(CancelCause cause) {
  switch (cause) {
    case CancelCause::kNone:
    case CancelCause::kClient:
      break;
    case CancelCause::kDeadline:
      return absl::DeadlineExceededError("the request's deadline has passed");
    case CancelCause::kDrain:
      return DrainingError(absl::StatusCode::kCancelled);
    case CancelCause::kOutOfMemory:
      return WithReason(absl::ResourceExhaustedError("out of memory"), "OUT_OF_MEMORY");
    case CancelCause::kDeviceFault:
      return DeviceFaultError();
    case CancelCause::kDeviceLost:
      return DeviceLostError();
  }
  return absl::CancelledError("cancelled by the client");
}

}  // namespace latentd::engine
