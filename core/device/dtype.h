// Element types of tensors.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd::device {

enum class DType : uint8_t { kF32, kF16, kBF16, kI64, kU8 };

int64_t SizeOf(DType dtype);

// "f32", "f16", "bf16", "i64", "u8": the spelling of the graph text.
absl::string_view Name(DType dtype);
absl::StatusOr<DType> ParseDType(absl::string_view name);

}  // namespace latentd::device
