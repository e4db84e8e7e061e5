// The seam to ATen: what it throws becomes a status.
//
// Internal to this directory; include it in .cc files only.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"

namespace latentd::backends::reference {

// ATen's CPU allocator throws a plain c10::Error; only its text tells.
inline bool IsOutOfMemory(const c10::Error& error) {
  const absl::string_view what = error.what_without_backtrace();
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         (absl::StrContains(what, "DefaultCPUAllocator") && absl::StrContains(what, "memory"));
}

inline absl::Status OutOfMemory(absl::string_view message) {
  return WithReason(absl::ResourceExhaustedError(message), "OUT_OF_MEMORY");
}

// Calls `function`, which returns a status or something that a status converts to. `what` names
// the work in the message: "the reference backend". RESOURCE_EXHAUSTED with reason OUT_OF_MEMORY:
// there is no memory; INVALID_ARGUMENT: whatever else ATen objects to.
template <typename Function>
auto CatchAten(absl::string_view what, Function function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return OutOfMemory(absl::StrCat(what, ": out of memory"));
  } catch (const c10::Error& error) {
    const std::string message = absl::StrCat(what, ": ", error.what_without_backtrace());
    return IsOutOfMemory(error) ? OutOfMemory(message) : absl::InvalidArgumentError(message);
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", error.what()));
  }
}

}  // namespace latentd::backends::reference
