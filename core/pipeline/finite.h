// NaN and infinity never leave as a picture.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/device/buffer.h"

namespace latentd::pipeline {

inline constexpr char kNotFinite[] = "NOT_FINITE";

// INTERNAL with reason kNotFinite, "WHAT: 3 of 768 values are not finite", unless all are.
// REQUIRES: f32.
absl::Status CheckFinite(const device::Buffer& values, absl::string_view what);

}  // namespace latentd::pipeline
