// Element types of tensors.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd::device {

// The last two are how checkpoints of 8-bit floats store weights: e4m3 has NaN and no infinity
// (torch's float8_e4m3fn), e5m2 is the upper half of f16. f32, f16 and bf16 have all their values.
enum class DType : uint8_t { kF32, kF16, kBF16, kI64, kU8, kF8E4M3, kF8E5M2 };

// True for 8-bit floats: of all ops only a few read them (core/graph/op_table.cc).
constexpr bool IsF8(DType dtype) { return dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2; }

int64_t SizeOf(DType dtype);

// "f32", "f16", "bf16", "i64", "u8", "f8_e4m3", "f8_e5m2": the spelling of the graph text.
absl::string_view Name(DType dtype);
absl::StatusOr<DType> ParseDType(absl::string_view name);

}  // namespace latentd::device
