// A linear layer of 8-bit floats (e4m3) and GEGLU of its result, in 8-bit floats again, in one
// launch on Hopper's tensor cores: what the linear layer gives is never in memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/backends/cuda/kernels/common/element.h"

namespace latentd::backends::cuda::kernels {

// result [rows, columns] = value * gelu(gate) / *result_scale, where x [rows, depth] times the
// weight, times *scale, plus bias, is [rows, values and gates]. Sums and GEGLU are in f32, and only
// the result is rounded: to nearest even, what is too large to 448 or -448, NaN to NaN.
//
// The weight has a line of `depth` for each value and each gate, in the order of F8GatedLine. The
// bias has all values before all gates, as models have it.
struct F8LinearGegluArgs {
  Element element = Element::kBF16;     // or kF16: of the bias; x, weight and result are e4m3
  const void* x = nullptr;              // aligned to 16 bytes, as are all but scales
  const void* weight = nullptr;         // [2 * columns, depth], permuted
  const float* scale = nullptr;         // on the device, of both operands
  const void* bias = nullptr;           // [2 * columns], or null
  const float* result_scale = nullptr;  // on the device, a power of two
  void* result = nullptr;
  int64_t rows = 0, columns = 0, depth = 0;
};

inline constexpr int64_t kF8GatedTile = 160;  // columns of the product that a block computes

// Arguments that it supports, on a GPU of compute capability 9.0.
constexpr bool HasF8LinearGeglu(const F8LinearGegluArgs& args) {
  return (args.element == Element::kBF16 || args.element == Element::kF16) &&
         args.columns % 16 == 0 && 2 * args.columns % kF8GatedTile % 64 == 0 &&
         args.depth % 16 == 0;
}

// The line of the plain weight [2 * columns, depth] that is line `line` of the permuted one.
//
// It follows from how tensor cores leave results. A thread holds the columns 2t and 2t + 1 of each
// 8, t being its number modulo 4. Of the first and the second 64 columns of a tile it has eight
// values next to each other and their gates, of the last 32 four, so that it writes them at once:
// with h the half of how many 8 there are, line 8j + 2t + i is value (or, from j = h, gate)
// 2h t + 2 (j mod h) + i.
constexpr int64_t F8GatedLine(int64_t line, int64_t columns) {
  const int64_t in_tile = line % kF8GatedTile, in_group = in_tile % 64;
  const int64_t half = in_tile < 128 ? 4 : 2;
  const int64_t j = in_group / 8, t = in_group % 8 / 2, i = in_group % 2;
  const int64_t gates = j >= half ? columns : 0;
  return gates + (line - in_group) / 2 + 2 * half * t + 2 * (j % half) + i;
}

// Permutes a plain weight of e4m3; both are aligned to 16 bytes. REQUIRES: HasF8LinearGeglu.
cudaError_t PackF8Gated(const void* weight, void* permuted, int64_t columns, int64_t depth,
                        cudaStream_t stream);

// cudaErrorInvalidValue: what HasF8LinearGeglu refuses, or an address that is not aligned.
// cudaErrorNotSupported: a GPU that is no Hopper.
cudaError_t F8LinearGeglu(const F8LinearGegluArgs& args, cudaStream_t stream);

}  // namespace latentd::backends::cuda::kernels
