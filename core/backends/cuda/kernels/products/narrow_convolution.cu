#include <algorithm>

#include "core/backends/cuda/kernels/products/narrow_convolution.h"

namespace latentd::backends::cuda::kernels {
namespace {

constexpr int64_t kFew = 8, kMultiple = 32, kMostElements = int64_t{1} << 31;
// Limits of a grid in two of its dimensions; tiles of the one kernel are 16 lines high.
constexpr int64_t kMostRows = 65535, kMostHeight = 16 * kMostRows;

bool IsToFew(const NarrowConvolutionArgs& a) {
  return a.out <= kFew && a.channels % kMultiple == 0 && a.rows <= kMostRows &&
         a.height <= kMostHeight;
}

bool IsOfFew(const NarrowConvolutionArgs& a) {
  return a.channels <= kFew && a.out % kMultiple == 0 && a.out <= kMostOutOfFew;
}

}  // namespace

bool IsNarrow(const NarrowConvolutionArgs& a) {
  const int64_t elements = a.rows * a.height * a.width * std::max(a.channels, a.out);
  return (a.element == Element::kF16 || a.element == Element::kBF16) && elements > 0 &&
         elements < kMostElements && (IsToFew(a) || IsOfFew(a));
}

cudaError_t NarrowConvolution(const NarrowConvolutionArgs& args, cudaStream_t stream) {
  if (!IsNarrow(args)) return cudaErrorInvalidValue;
  return IsToFew(args) ? ConvolutionToFew(args, stream) : ConvolutionOfFew(args, stream);
}

}  // namespace latentd::backends::cuda::kernels
