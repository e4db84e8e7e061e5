// Attention over few keys, as a prompt has: a block reads all keys and values of a head once, and
// no score goes to memory. A query's result is the same whatever queries and rows are beside it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/backends/cuda/kernels/element.h"

namespace latentd::backends::cuda::kernels {

inline constexpr int64_t kShortAttentionSize = 64;  // of a head
inline constexpr int64_t kMostShortAttentionKeys = 160;

// Query [rows, queries, heads * 64], key and value [rows, keys, heads * 64] to a dense result like
// the query. Scores and their softmax are in f32; its weights are rounded before the values are
// multiplied with them. Not in place.
struct ShortAttentionArgs {
  // What is read begins, as each of its rows and tokens does, at a multiple of 16 bytes.
  struct Operand {
    const void* data = nullptr;
    int64_t row = 0, token = 0;  // strides in elements
  };
  Element element = Element::kBF16;  // or kF16
  Operand query, key, value;
  void* result = nullptr;  // aligned as they are
  int64_t rows = 0, heads = 0, queries = 0;
  int64_t keys = 0;  // 1 to kMostShortAttentionKeys
  float scale = 1;
  bool causal = false;  // query i sees keys 0 .. i
};
cudaError_t ShortAttention(const ShortAttentionArgs& args, cudaStream_t stream);

}  // namespace latentd::backends::cuda::kernels
