#include "core/pipeline/picture/finite.h"

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"

namespace latentd::pipeline {

absl::Status FiniteFlag::Check() const {
  if (flag.as<uint8_t>().front() != 0) return absl::OkStatus();
  return WithReason(absl::InternalError(absl::StrCat(
                        what, ": some values are not finite; the checkpoint's tensors of ", network,
                        " hold NaN or infinity, or overflow in the precision that it computes in")),
                    kNotFinite);
}

}  // namespace latentd::pipeline
