// Arguments of kernels that attend without scores in memory: short_attention.h, long_attention.h.
#pragma once

#include <cstdint>

#include "core/backends/cuda/kernels/common/element.h"

namespace latentd::backends::cuda::kernels {

// Size of the largest head. Smaller ones are computed as if zeros followed, which are never read
// from memory: elements there are the next head's.
inline constexpr int kAttentionSize = 64;

// Query [rows, queries, heads * size], key and value [rows, keys, heads * size] to a dense result
// like the query. Scores and their softmax are in f32; its weights are rounded before the values
// are multiplied with them. Not in place.
struct AttentionArgs {
  // An operand begins, as each of its rows and tokens does, at a multiple of 16 bytes.
  struct Operand {
    const void* data = nullptr;
    int64_t row = 0, token = 0;  // strides in elements
  };
  Element element = Element::kBF16;  // or kF16
  Operand query, key, value;
  void* result = nullptr;  // aligned as they are
  // For long_attention.h alone. Null: the result is of the operands' type. Else that is divided by
  // this power of two, on the device, and rounded once more, to e4m3, as kernels/f8.h has it.
  const float* f8_scale = nullptr;
  int64_t rows = 0, heads = 0, queries = 0, keys = 0;
  int64_t size = kAttentionSize;  // a multiple of 8
  float scale = 1;
  bool causal = false;  // query i sees keys 0 .. i
};

constexpr bool HasAttentionSize(const AttentionArgs& args) {
  return args.size > 0 && args.size <= kAttentionSize && args.size % 8 == 0;
}

}  // namespace latentd::backends::cuda::kernels
