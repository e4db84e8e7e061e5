// Words that the printer and the parser of the text form share.
#pragma once

#include "absl/strings/string_view.h"
#include "core/graph/graph.h"

namespace latentd::graph {

inline constexpr absl::string_view kTextHeader = "latentd graph 1\n";

inline constexpr absl::string_view kRateWords[] = {"checkpoint", "request", "step"};
inline constexpr absl::string_view kLayoutWords[] = {"nchw", "nhwc"};

inline absl::string_view WordFor(Rate rate) { return kRateWords[static_cast<size_t>(rate)]; }
inline absl::string_view WordFor(Layout layout) {
  return kLayoutWords[static_cast<size_t>(layout)];
}

}  // namespace latentd::graph
