// The trace that a call belongs to: metadata "traceparent" (https://www.w3.org/TR/trace-context/).
//
// Pure: any thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace latentd::server::calls {

// The trace's id, 32 hexadecimal digits; empty where the header is none that the standard allows.
std::string TraceIdOf(absl::string_view traceparent);

}  // namespace latentd::server::calls
