// Machine-readable facts of an error beyond its reason: ErrorInfo.metadata of a client's status;
// image_generation.proto lists them. Carried as error_details.h's are.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace latentd {

struct ErrorFact {
  std::string name;   // "needed_bytes"
  std::string value;  // short

  bool operator==(const ErrorFact&) const = default;
};

// Adds them. A client sees those of a status that has a reason.
absl::Status WithFacts(absl::Status status, const std::vector<ErrorFact>& facts);
std::vector<ErrorFact> GetFacts(const absl::Status& status);

// Adds to an OUT_OF_MEMORY the bytes that are needed and those that were available.
absl::Status WithMissingBytes(absl::Status status, int64_t needed, int64_t available);

}  // namespace latentd
