// NaN and infinity never leave as a picture.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/device/buffer.h"

namespace latentd::pipeline {

inline constexpr char kNotFinite[] = "NOT_FINITE";

// INTERNAL with reason kNotFinite, "WHAT: 3 of 768 values are not finite", unless all are.
// `network` gave them, from values that were: so its tensors are what to look at. REQUIRES: f32.
absl::Status CheckFinite(const device::Buffer& values, absl::string_view what,
                         absl::string_view network);

}  // namespace latentd::pipeline
