// Attention over many keys on Hopper's tensor cores: no score goes to memory, and it needs no
// workspace. A query's result is the same whatever queries, heads and rows are beside it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/backends/cuda/kernels/element.h"

namespace latentd::backends::cuda::kernels {

inline constexpr int64_t kLongAttentionSize = 64;  // of a head
// Tiles of 64 queries that a multiprocessor works on at a time.
inline constexpr int kMostLongAttentionTiles = 5;

// Query [rows, queries, heads * 64], key and value [rows, keys, heads * 64] to a dense result like
// the query. Scores and the sums of their softmax are in f32; its weights are rounded before the
// values are multiplied with them. Not in place.
struct LongAttentionArgs {
  // What is read begins, as each of its rows and tokens does, at a multiple of 16 bytes.
  struct Operand {
    const void* data = nullptr;
    int64_t row = 0, token = 0;  // strides in elements
  };
  Element element = Element::kBF16;  // or kF16
  Operand query, key, value;
  void* result = nullptr;  // aligned as they are
  int64_t rows = 0, heads = 0, queries = 0, keys = 0;
  float scale = 1;  // positive
};

constexpr int64_t TilesOf(const LongAttentionArgs& args) {
  return args.rows * args.heads * ((args.queries + 63) / 64);
}

// What it takes, beside a GPU of compute capability 9.0.
constexpr bool HasLongAttention(const LongAttentionArgs& args) {
  constexpr int64_t kMany = int64_t{1} << 31;
  const auto has = [&](const LongAttentionArgs::Operand& operand) {
    return operand.token > 0 && (operand.row > 0 || args.rows == 1) && operand.row < kMany &&
           operand.token < kMany;
  };
  return (args.element == Element::kBF16 || args.element == Element::kF16) && args.scale > 0 &&
         args.rows > 0 && args.heads > 0 && args.queries > 0 && args.keys > 0 &&
         args.queries < kMany && args.keys < kMany && TilesOf(args) < kMany && has(args.query) &&
         has(args.key) && has(args.value);
}

// cudaErrorInvalidValue: what HasLongAttention denies, or an address that is not aligned.
// cudaErrorNotSupported: a GPU that is no Hopper.
cudaError_t LongAttention(const LongAttentionArgs& args, cudaStream_t stream);

}  // namespace latentd::backends::cuda::kernels
