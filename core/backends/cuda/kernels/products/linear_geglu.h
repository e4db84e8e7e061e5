// A linear layer and GEGLU of its result in one launch, on Hopper's tensor cores: what the linear
// layer gives is never in memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/backends/cuda/kernels/common/element.h"

namespace latentd::backends::cuda::kernels {

// result [rows, columns] = value * gelu(gate), where x [rows, depth] times the weight, plus bias,
// is [rows, values and gates]. Sums and GEGLU are in f32, and only the result is rounded.
//
// The weight has a line of `depth` for each value and each gate, of 16 of each in turn; in which
// order is GatedRow's. The bias has all values before all gates, as models have it.
struct LinearGegluArgs {
  Element element = Element::kBF16;  // or kF16: of everything
  const void* x = nullptr;           // aligned to 16 bytes, as are all of these
  const void* weight = nullptr;      // [2 * columns, depth], permuted
  const void* bias = nullptr;        // [2 * columns], or null
  void* result = nullptr;
  int64_t rows = 0, columns = 0, depth = 0;
};

// Arguments that it supports, on a GPU of compute capability 9.0.
constexpr bool HasLinearGeglu(const LinearGegluArgs& args) {
  return (args.element == Element::kBF16 || args.element == Element::kF16) &&
         args.columns % 16 == 0 && args.depth % 8 == 0;
}

// The order in which tensor cores leave results. A thread holds the columns 2t and 2t + 1 of each
// 8, t being its number modulo 4. The weight's lines lie so that it holds, of 32 columns, four
// values next to each other and their four gates: line 8j + 2t + i of 32 is value (or, from j = 2,
// gate) 4t + 2 (j mod 2) + i of 16.
//
// As a strided view of the plain weight [2 * columns, depth]: sizes and strides (in lines) of
// (which 16, value or gate, j mod 2, t, i).
struct GatedRow {
  static constexpr int kRank = 5;
  int64_t sizes[kRank], strides[kRank];

  explicit constexpr GatedRow(int64_t columns)
      : sizes{columns / 16, 2, 2, 4, 2}, strides{16, columns, 2, 4, 1} {}
};

// cudaErrorInvalidValue: what HasLinearGeglu refuses, or an address that is not aligned.
// cudaErrorNotSupported: a GPU that is no Hopper.
cudaError_t LinearGeglu(const LinearGegluArgs& args, cudaStream_t stream);

}  // namespace latentd::backends::cuda::kernels
