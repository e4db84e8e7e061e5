// How far a backend may be from what it is measured against: |a - b| <= abs + rel * |b|. One table,
// so that a budget is data.
#pragma once

#include <string>

#include "core/device/dtype.h"

namespace latentd::testing {

struct Tolerance {
  const char* backend;
  device::DType dtype;  // the result's
  double abs, rel;
};

inline constexpr Tolerance kTolerances[] = {
    // Against double precision: fp32 rounding over sums of a few hundred terms.
    {"reference", device::DType::kF32, 2e-5, 2e-5},
    {"reference", device::DType::kF16, 1e-3, 1e-3},
    {"reference", device::DType::kBF16, 8e-3, 8e-3},
    // Against the reference backend: the same sums in another order, and own exp and erf.
    {"cpu", device::DType::kF32, 2e-5, 2e-5},
    {"cpu", device::DType::kF16, 1e-3, 1e-3},
    {"cpu", device::DType::kBF16, 8e-3, 8e-3},
    {"cuda", device::DType::kF32, 2e-5, 2e-5},
    {"cuda", device::DType::kF16, 1e-3, 1e-3},
    {"cuda", device::DType::kBF16, 8e-3, 8e-3},
};

// Integers are exact.
inline Tolerance ToleranceOf(const std::string& backend, device::DType dtype) {
  for (const Tolerance& row : kTolerances) {
    if (backend == row.backend && dtype == row.dtype) return row;
  }
  return {"", dtype, 0, 0};
}

}  // namespace latentd::testing
