// Conversion of std::bad_alloc, by which the C++ library reports a lack of memory, to a status.
//
// It is caught at four borders: a call, from its bytes to its answer, and each message that it is
// sent (server/); a task of a thread (core/base/threads/worker.h, and the loops of threads of their
// own); a unit of work in the engine's loop; making a weight, compiling a graph and loading it (the
// stores). Code in between lets it pass, and undoes what it has half done. A comment says why where
// it is caught elsewhere.
#pragma once

#include <new>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/errors/error_details.h"

namespace latentd {

inline absl::Status OutOfMemoryError(absl::string_view message) {
  return WithReason(absl::ResourceExhaustedError(message), "OUT_OF_MEMORY");
}

// Returns the result of `run`, an absl::Status or StatusOr, OK if it is void; RESOURCE_EXHAUSTED
// with reason OUT_OF_MEMORY if it throws std::bad_alloc. Without memory for that message, the code
// alone.
template <typename Run, typename Result = std::invoke_result_t<Run>>
std::conditional_t<std::is_void_v<Result>, absl::Status, Result> CatchOutOfMemory(const Run& run) {
  try {
    if constexpr (!std::is_void_v<Result>) return run();
    if constexpr (std::is_void_v<Result>) return run(), absl::OkStatus();
  } catch (const std::bad_alloc&) {
    try {
      return OutOfMemoryError("out of memory");
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError("");  // held in place
    }
  }
}

}  // namespace latentd
