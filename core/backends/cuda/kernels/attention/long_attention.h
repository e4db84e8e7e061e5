// Attention over many keys on Hopper's tensor cores: no score goes to memory, and it needs no
// workspace. A query's result is the same whatever queries, heads and rows are beside it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/backends/cuda/kernels/attention/attention_args.h"

namespace latentd::backends::cuda::kernels {

// Tiles of 64 queries that a multiprocessor works on at a time.
inline constexpr int kMostLongAttentionTiles = 5;

constexpr int64_t LongAttentionTiles(const AttentionArgs& args) {
  return args.rows * args.heads * ((args.queries + 63) / 64);
}

// Arguments that it supports, on a GPU of compute capability 9.0.
constexpr bool HasLongAttention(const AttentionArgs& args) {
  constexpr int64_t kMany = int64_t{1} << 31;
  const auto has = [&](const AttentionArgs::Operand& operand) {
    return operand.token > 0 && (operand.row > 0 || args.rows == 1) && operand.row < kMany &&
           operand.token < kMany;
  };
  return (args.element == Element::kBF16 || args.element == Element::kF16) && args.scale > 0 &&
         !args.causal && HasAttentionSize(args) && args.rows > 0 && args.heads > 0 &&
         args.queries > 0 && args.keys > 0 && args.queries < kMany && args.keys < kMany &&
         LongAttentionTiles(args) < kMany && has(args.query) && has(args.key) && has(args.value);
}

// cudaErrorInvalidValue: what HasLongAttention denies, or an address that is not aligned.
// cudaErrorNotSupported: a GPU that is no Hopper.
cudaError_t LongAttention(const AttentionArgs& args, cudaStream_t stream);

}  // namespace latentd::backends::cuda::kernels
