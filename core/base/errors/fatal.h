// The end of a process that cannot go on, with a line that says why.
//
// Thread-safe.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace latentd {

// The function that writes the line; standard error until it is set. Set it before threads start.
using FatalLog = void (*)(absl::string_view message);
void SetFatalLog(FatalLog log);

// Writes the line and ends the process with exit code 1, without cleaning up.
[[noreturn]] void Fatal(absl::string_view message);

// From now on, a process that ends by an uncaught exception, or by std::terminate, writes such a
// line before it aborts.
void ExplainTerminate();

// The text that ExplainTerminate writes for an error of threads or of the system: with the limits
// that are the likely reason. `what` is the exception's.
std::string ExplainSystemError(int error, absl::string_view what);

}  // namespace latentd
