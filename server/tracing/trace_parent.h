// The trace that a call belongs to: metadata "traceparent" (https://www.w3.org/TR/trace-context/).
//
// Pure: any thread.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace latentd::server::tracing {

struct TraceParent {
  std::string trace_id;   // 32 hexadecimal digits
  std::string parent_id;  // the caller's span, 16 of them
  bool sampled = false;   // true if the caller records the trace
};

// Nothing where the header is none that the standard allows.
std::optional<TraceParent> ParseTraceParent(absl::string_view header);

}  // namespace latentd::server::tracing
