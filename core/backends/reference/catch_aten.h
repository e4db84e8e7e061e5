// The seam to ATen: what it throws becomes a status.
//
// Internal to this directory; include it in .cc files only.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace latentd::backends::reference {

// Calls `function`, which returns a status or something that a status converts to. `what` names
// the work in the message: "the reference backend".
template <typename Function>
auto CatchAten(absl::string_view what, Function function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(what, ": out of memory"));
  } catch (const c10::Error& error) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", error.what()));
  }
}

}  // namespace latentd::backends::reference
