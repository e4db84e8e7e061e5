// A fault after which a device works no more for this process, whatever is tried: a kernel's bad
// access, a GPU that fell off the bus. The work that meets it is not to blame.
//
// Thread-safe: free functions without state.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/errors/error_details.h"

namespace latentd::device {

// Reason of a device's own errors, and of what clients are told after one.
inline constexpr char kDeviceFault[] = "DEVICE_FAULT";

// INTERNAL with that reason.
inline absl::Status FaultError(absl::string_view message) {
  return WithReason(absl::InternalError(message), kDeviceFault);
}
inline bool IsFault(const absl::Status& status) {
  return absl::IsInternal(status) && GetReason(status) == kDeviceFault;
}

}  // namespace latentd::device
