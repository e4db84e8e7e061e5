#include "core/graph/precision.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace latentd::graph {

std::string ToText(const Precision& precision) {
  std::string text(device::Name(precision.dtype));
  if (precision.dtype == device::DType::kF32 || precision.f32_weights.empty()) return text;
  // Sorted; no weight's name has a quote in it.
  const std::set<std::string> prefixes(precision.f32_weights.begin(), precision.f32_weights.end());
  return absl::StrCat(text, " f32=\"", absl::StrJoin(prefixes, "\",\""), "\"");
}

}  // namespace latentd::graph
