#include "core/pipeline/finite.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"

namespace latentd::pipeline {

absl::Status CheckFinite(const device::Buffer& values, absl::string_view what,
                         absl::string_view network) {
  const absl::Span<const float> all = values.as<float>();
  const auto bad = std::count_if(all.begin(), all.end(), [](float x) { return !std::isfinite(x); });
  if (bad == 0) return absl::OkStatus();
  return WithReason(absl::InternalError(absl::StrCat(
                        what, ": ", bad, " of ", all.size(),
                        " values are not finite; the checkpoint's tensors of ", network,
                        " hold NaN or infinity, or overflow in the precision that it computes in")),
                    kNotFinite);
}

}  // namespace latentd::pipeline
