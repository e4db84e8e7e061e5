// Conversion of std::bad_alloc, by which the C++ library reports a lack of memory, to a status.
#pragma once

#include <new>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/error_details.h"

namespace latentd {

inline absl::Status OutOfMemoryError(absl::string_view message) {
  return WithReason(absl::ResourceExhaustedError(message), "OUT_OF_MEMORY");
}

// Returns the result of `run`, an absl::Status or StatusOr; RESOURCE_EXHAUSTED with reason
// OUT_OF_MEMORY if it throws std::bad_alloc. Without memory for that message, the code alone.
template <typename Run>
std::invoke_result_t<Run> CatchOutOfMemory(const Run& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    try {
      return OutOfMemoryError("out of memory");
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError("");  // held in place
    }
  }
}

}  // namespace latentd
