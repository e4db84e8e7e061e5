// Names of shapes in plans, in findings and in messages.
#include "absl/strings/str_cat.h"
#include "core/backends/cuda/libraries/cudnn.h"

namespace latentd::backends::cuda {
namespace {

template <typename Shape>
absl::string_view PrecisionOf(const Shape& shape) {
  return shape.tf32() ? "tf32" : device::Name(shape.dtype);
}

}  // namespace

std::string ConvolutionShape::Key() const {
  return absl::StrCat("convolution ", PrecisionOf(*this), " ", rows, "x", height, "x", width, "x",
                      channels, " to ", out, " by ", kernel_height, "x", kernel_width, "/", stride,
                      "+", padding_height, "x", padding_width, has_bias ? " bias" : "",
                      has_residual ? " residual" : "");
}

std::string TransposedConvolutionShape::Key() const {
  return absl::StrCat("transposed convolution ", PrecisionOf(*this), " ", rows, "x", height, "x",
                      width, "x", channels, " to ", out, " by 4x4/2+1");
}

std::string AttentionShape::Key() const {
  std::string key = absl::StrCat("attention ", device::Name(dtype), " ", rows, "x", heads, "x",
                                 size, " of ", queries, " over ", keys, " scaled ", scale);
  for (const Operand& operand : {query, this->key, value}) {
    absl::StrAppend(&key, " ", operand.row, ":", operand.token);
  }
  return key + (causal ? " causal" : "");
}

}  // namespace latentd::backends::cuda
