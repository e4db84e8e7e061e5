// Arguments of kernels that attend without scores in memory: short_attention.h, long_attention.h.
#pragma once

#include <cstdint>

#include "core/backends/cuda/kernels/element.h"

namespace latentd::backends::cuda::kernels {

inline constexpr int kAttentionSize = 64;  // size of a head

// Query [rows, queries, heads * 64], key and value [rows, keys, heads * 64] to a dense result like
// the query. Scores and their softmax are in f32; its weights are rounded before the values are
// multiplied with them. Not in place.
struct AttentionArgs {
  // An operand begins, as each of its rows and tokens does, at a multiple of 16 bytes.
  struct Operand {
    const void* data = nullptr;
    int64_t row = 0, token = 0;  // strides in elements
  };
  Element element = Element::kBF16;  // or kF16
  Operand query, key, value;
  void* result = nullptr;  // aligned as they are
  int64_t rows = 0, heads = 0, queries = 0, keys = 0;
  float scale = 1;
  bool causal = false;  // query i sees keys 0 .. i
};

}  // namespace latentd::backends::cuda::kernels
