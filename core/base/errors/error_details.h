// Details of an error that a caller gets beyond code and message, carried inside absl::Status as
// payloads, so that core/ can say it without knowing gRPC. server/ turns these into
// google.rpc.BadRequest, ErrorInfo and RetryInfo.
//
// Thread-safe: free functions without state.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace latentd {

// One bad field of a request: its name as in the proto ("num_inference_steps") and what would be
// right.
struct FieldViolation {
  std::string field;
  std::string description;

  bool operator==(const FieldViolation&) const = default;
};

// INVALID_ARGUMENT that names every bad field at once. REQUIRES: !violations.empty().
absl::Status InvalidFields(const std::vector<FieldViolation>& violations);
std::vector<FieldViolation> GetFieldViolations(const absl::Status& status);

// A machine-readable reason in capitals: "QUEUE_FULL", "DRAINING", "LOADING", "OUT_OF_MEMORY".
absl::Status WithReason(absl::Status status, absl::string_view reason);
std::string GetReason(const absl::Status& status);

// When it is worth trying again.
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);
std::optional<absl::Duration> GetRetryDelay(const absl::Status& status);

}  // namespace latentd
