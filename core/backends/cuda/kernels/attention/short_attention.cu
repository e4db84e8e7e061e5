// Products by tensor cores (mma.m16n8k16). Which index of a product's inner dimension is which
// element of a head is free, as long as both operands agree: here it is such that a thread's parts
// of queries and keys are 16 bytes beside each other. Values are permuted for the same reason: a
// thread then has 16 bytes of the result.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/backends/cuda/kernels/attention/short_attention.h"
#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/common/numbers.cuh"
#include "core/backends/cuda/kernels/common/tensor_core.cuh"

namespace latentd::backends::cuda::kernels {
namespace {

constexpr int kSize = kAttentionSize;
constexpr int kPitch = kSize + 8;  // in shared memory, so that eight tokens are in different banks
constexpr int kWarps = 4;
constexpr int kTile = 16;             // queries of a product
constexpr int64_t kMostRows = 65535;  // the most of a launch: a grid's third dimension

// Four matrices of 8 x 8 elements, transposed; lane i says where row i % 8 of matrix i / 8 begins.
__device__ void LoadTransposed(const void* row, uint32_t (&words)[4]) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address));
}

// Keys and values of a head; those beyond the last are 0.
template <typename T, int kKeys>
struct Tokens {
  alignas(16) T keys[kKeys][kPitch];
  alignas(16)
      T values[kKeys][kPitch];  // element 32 b + 8 j + 2 i + k of a head at 32 b + 8 i + 2 j + k
};

// Eight elements of a head; those beyond its size are 0.
template <typename T>
__device__ uint4 LoadedToken(const AttentionArgs::Operand& from, int size, int token, int element) {
  const T* const at = static_cast<const T*>(from.data) + blockIdx.z * from.row +
                      token * from.token + blockIdx.y * size + element;
  return element < size ? *reinterpret_cast<const uint4*>(at) : uint4();
}

template <typename T, int kKeys>
__device__ void LoadTokens(const AttentionArgs& a, int size, Tokens<T, kKeys>& tokens) {
  for (int i = threadIdx.x; i < kKeys * (kSize / 8); i += kWarps * 32) {
    const int token = i / (kSize / 8), element = i % (kSize / 8) * 8;
    uint4 key = {}, value = {};
    if (token < a.keys) {
      key = LoadedToken<T>(a.key, size, token, element);
      value = LoadedToken<T>(a.value, size, token, element);
    }
    *reinterpret_cast<uint4*>(&tokens.keys[token][element]) = key;
    T* const to = &tokens.values[token][element / 32 * 32 + element % 32 / 4];
    *reinterpret_cast<uint32_t*>(to) = value.x;
    *reinterpret_cast<uint32_t*>(to + 8) = value.y;
    *reinterpret_cast<uint32_t*>(to + 16) = value.z;
    *reinterpret_cast<uint32_t*>(to + 24) = value.w;
  }
}

// Position of a lane: queries at lane / 4 and 8 further on, elements and keys by lane % 4.
struct Lane {
  int query, part;
};

// One tile of queries: its scores, which become weights, and its result.
template <typename T, int kKeys>
struct Tile {
  uint32_t queries[kSize / 16][4];
  float weights[kKeys / 8][4];
  float sums[2];
  float result[kSize / 8][4];

  __device__ void Load(const AttentionArgs& a, int size, int first, Lane lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = min(first + lane.query + 8 * half, static_cast<int>(a.queries) - 1);
#pragma unroll
      for (int b = 0; b < kSize / 32; ++b) {
        const uint4 words = LoadedToken<T>(a.query, size, query, 32 * b + 8 * lane.part);
        queries[2 * b][half] = words.x;
        queries[2 * b][2 + half] = words.y;
        queries[2 * b + 1][half] = words.z;
        queries[2 * b + 1][2 + half] = words.w;
      }
    }
  }

  // Scores in the exponent of 2, then exp2 of what they are below the largest.
  __device__ void Weigh(const AttentionArgs& a, int first, Lane lane) {
    const float scale = a.scale * static_cast<float>(M_LOG2E);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = first + lane.query + 8 * half;
      const int seen = a.causal ? min(query + 1, static_cast<int>(a.keys)) : a.keys;
      float largest = -INFINITY;
#pragma unroll
      for (int i = 0; i < kKeys / 8 * 2; ++i) {
        float& score = weights[i / 2][2 * half + i % 2];
        score = 8 * (i / 2) + 2 * lane.part + i % 2 < seen ? score * scale : -INFINITY;
        largest = fmaxf(largest, score);
      }
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kKeys / 8 * 2; ++i) {
        float& weight = weights[i / 2][2 * half + i % 2];
        weight = exp2f(weight - largest);
        sum += weight;
      }
      sum += __shfl_xor_sync(~0u, sum, 1);
      sums[half] = sum + __shfl_xor_sync(~0u, sum, 2);
    }
  }

  __device__ void Store(const AttentionArgs& a, int size, int first, Lane lane) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t query = first + lane.query + 8 * half;
      if (query >= a.queries) return;
      const float scale = 1 / sums[half];
      T* const to = static_cast<T*>(a.result) +
                    ((blockIdx.z * a.queries + query) * a.heads + blockIdx.y) * size;
#pragma unroll
      for (int b = 0; b < kSize / 32; ++b) {
        if (32 * b + 8 * lane.part >= size) break;
        uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float* const pair = result[4 * b + i] + 2 * half;
          words[i] = Pair<T>(pair[0] * scale, pair[1] * scale);
        }
        *reinterpret_cast<uint4*>(to + 32 * b + 8 * lane.part) = {words[0], words[1], words[2],
                                                                  words[3]};
      }
    }
  }
};

template <typename T, int kKeys, int kTiles>
__device__ void Score(const Tokens<T, kKeys>& tokens, Lane lane, Tile<T, kKeys> (&tiles)[kTiles]) {
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (auto& tile : tiles) {
#pragma unroll
      for (float& score : tile.weights[n]) score = 0;
    }
#pragma unroll
    for (int b = 0; b < kSize / 32; ++b) {
      const T* const at = &tokens.keys[8 * n + lane.query][32 * b + 8 * lane.part];
      const uint4 words = *reinterpret_cast<const uint4*>(at);
#pragma unroll
      for (auto& tile : tiles) {
        Multiply<T>(tile.queries[2 * b], words.x, words.y, tile.weights[n]);
        Multiply<T>(tile.queries[2 * b + 1], words.z, words.w, tile.weights[n]);
      }
    }
  }
}

template <typename T, int kKeys, int kTiles>
__device__ void Mix(const Tokens<T, kKeys>& tokens, Tile<T, kKeys> (&tiles)[kTiles]) {
  const int row = threadIdx.x % 16, column = threadIdx.x % 32 / 16 * 8;
#pragma unroll
  for (auto& tile : tiles) {
#pragma unroll
    for (auto& sums : tile.result) sums[0] = sums[1] = sums[2] = sums[3] = 0;
  }
#pragma unroll
  for (int m = 0; m < kKeys / 16; ++m) {
    uint32_t weights[kTiles][4];
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* const pair = tiles[t].weights[2 * m + i / 2] + i % 2 * 2;
        weights[t][i] = Pair<T>(pair[0], pair[1]);
      }
    }
#pragma unroll
    for (int p = 0; p < kSize / 8; p += 2) {
      uint32_t values[4];
      LoadTransposed(&tokens.values[16 * m + row][8 * p + column], values);
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        Multiply<T>(weights[t], values[0], values[1], tiles[t].result[p]);
        Multiply<T>(weights[t], values[2], values[3], tiles[t].result[p + 1]);
      }
    }
  }
}

// A block has kWarps * kTiles tiles of queries of one head of one row. kWhole: heads have kSize
// elements, so that nothing is asked of each.
template <typename T, int kKeys, int kTiles, bool kWhole>
__global__ void __launch_bounds__(kWarps * 32) ShortAttentionKernel(AttentionArgs a) {
  __shared__ Tokens<T, kKeys> tokens;
  const Lane lane = {static_cast<int>(threadIdx.x % 32 / 4), static_cast<int>(threadIdx.x % 4)};
  const int size = kWhole ? kSize : static_cast<int>(a.size);
  const int first = (blockIdx.x * kWarps + threadIdx.x / 32) * kTiles * kTile;
  Tile<T, kKeys> tiles[kTiles];
#pragma unroll
  for (int t = 0; t < kTiles; ++t) tiles[t].Load(a, size, first + t * kTile, lane);
  LoadTokens(a, size, tokens);
  __syncthreads();
  Score(tokens, lane, tiles);
#pragma unroll
  for (int t = 0; t < kTiles; ++t) tiles[t].Weigh(a, first + t * kTile, lane);
  Mix(tokens, tiles);
#pragma unroll
  for (int t = 0; t < kTiles; ++t) tiles[t].Store(a, size, first + t * kTile, lane);
}

template <typename T, int kKeys, int kTiles>
cudaError_t LaunchFor(const AttentionArgs& args, cudaStream_t stream) {
  const Grid grid = {dim3(static_cast<unsigned>(CeilDiv(args.queries, kWarps * kTiles * kTile)),
                          static_cast<unsigned>(args.heads), static_cast<unsigned>(args.rows)),
                     kWarps * 32};
  return args.size == kSize
             ? Launch(ShortAttentionKernel<T, kKeys, kTiles, true>, grid, stream, args)
             : Launch(ShortAttentionKernel<T, kKeys, kTiles, false>, grid, stream, args);
}

// The same attention of some of its rows.
template <typename T>
AttentionArgs RowsOf(const AttentionArgs& args, int64_t first, int64_t count) {
  const auto move = [&](AttentionArgs::Operand& operand) {
    operand.data = static_cast<const T*>(operand.data) + first * operand.row;
  };
  AttentionArgs rows = args;
  rows.rows = count;
  move(rows.query);
  move(rows.key);
  move(rows.value);
  rows.result = static_cast<T*>(args.result) + first * args.queries * args.heads * args.size;
  return rows;
}

// Scores are in registers: as many tiles of queries as leave none in memory. The places of a large
// video's pixels are more rows than a grid has blocks for.
template <typename T>
cudaError_t LaunchFor(const AttentionArgs& args, cudaStream_t stream) {
  for (int64_t first = 0; first < args.rows; first += kMostRows) {
    const AttentionArgs rows = RowsOf<T>(args, first, std::min(kMostRows, args.rows - first));
    const cudaError_t error = rows.keys <= 80
                                  ? LaunchFor<T, 80, 2>(rows, stream)
                                  : LaunchFor<T, kMostShortAttentionKeys, 1>(rows, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t ShortAttention(const AttentionArgs& args, cudaStream_t stream) {
  if (args.keys < 1 || args.keys > kMostShortAttentionKeys || !HasAttentionSize(args)) {
    return cudaErrorInvalidValue;
  }
  switch (args.element) {
    case Element::kF16:
      return LaunchFor<__half>(args, stream);
    case Element::kBF16:
      return LaunchFor<__nv_bfloat16>(args, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace latentd::backends::cuda::kernels
