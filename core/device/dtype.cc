#include "core/device/dtype.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "core/base/text/text.h"

namespace latentd::device {
namespace {

struct Row {
  DType dtype;
  absl::string_view name;
  int64_t size;
};

// In the order of the enum.
constexpr std::array<Row, 7> kRows = {{{DType::kF32, "f32", 4},
                                       {DType::kF16, "f16", 2},
                                       {DType::kBF16, "bf16", 2},
                                       {DType::kI64, "i64", 8},
                                       {DType::kU8, "u8", 1},
                                       {DType::kF8E4M3, "f8_e4m3", 1},
                                       {DType::kF8E5M2, "f8_e5m2", 1}}};

}  // namespace

int64_t SizeOf(DType dtype) { return kRows[static_cast<size_t>(dtype)].size; }

absl::string_view Name(DType dtype) { return kRows[static_cast<size_t>(dtype)].name; }

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.dtype;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown dtype ", Excerpt(name)));
}

}  // namespace latentd::device
