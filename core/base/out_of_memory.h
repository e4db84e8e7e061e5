// Where the C++ library says by an exception that there is no memory left: a status like any other.
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

// What `run` returns, an absl::Status or StatusOr; RESOURCE_EXHAUSTED with reason OUT_OF_MEMORY if
// it throws std::bad_alloc. Where there is no memory to say so either, the code alone.
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
