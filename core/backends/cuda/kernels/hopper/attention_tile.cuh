// The part of attention that a warpgroup computes: 64 queries of a head over its keys and values,
// 64 at a time, that lie in shared memory as TMA leaves them with a swizzle of 128 bytes.
//
// Weights are exponentials of what scores are above a reference. That is not the largest score so
// far: finding that takes a fifth of the time. It is raised only when a query's weights, computed
// with what it is, turn out to be large; till then they are neither too large for their type nor
// smaller than those below the largest score would be.
//
// For .cu files that are compiled for sm_90a only.
#pragma once

#include <cutlass/bfloat16.h>
#include <cutlass/half.h>

#include <cmath>
#include <cute/tensor.hpp>
#include <type_traits>

#include "core/backends/cuda/kernels/attention/attention_args.h"
#include "core/backends/cuda/kernels/common/numbers.cuh"
#include "core/backends/cuda/kernels/values/activation.cuh"
#include "core/backends/cuda/kernels/values/f8.cuh"

namespace latentd::backends::cuda::kernels::hopper {

inline constexpr int kTokens = 64;  // queries of a tile, and keys of a block

// The largest of the four threads that have the same queries.
__device__ inline float LargestOfQuad(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ inline float SumOfQuad(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

// A thread has, of two queries `half` of 8 rows apart, elements 2t and 2t + 1 of each 8 scores or
// results, t being its number modulo 4: number 4 i + 2 half + 0 and 1, of the i-th 8.
template <typename T, int kStages>
class AttentionTile {
 public:
  // `keys` and `values` are kStages blocks, one behind another; `scale` is to the exponent of 2.
  __device__ AttentionTile(const T* queries, const T* keys, const T* values, float scale)
      : queries_(queries), keys_(keys), values_(values), scale_(scale) {
    cute::clear(result_);
  }

  // Replaces the scores by those of a stage's keys; waits for them after `meanwhile`.
  template <typename Function>
  __device__ void Score(int stage, const Function& meanwhile) {
    using namespace cute;  // NOLINT: what its names are made for
    ScoreMma mma;
    const auto thread = mma.get_thread_slice(threadIdx.x % 128);
    const Tensor q = thread.partition_fragment_A(
        make_tensor(make_smem_ptr(queries_), tile_to_shape(KAtom{}, Shape<_64, _64>{})));
    const Tensor k = thread.partition_fragment_B(
        make_tensor(make_smem_ptr(keys_), tile_to_shape(KAtom{}, Shape<_64, _64, Int<kStages>>{})));
    // Another variable: what the tensor cores overwrite would else count as read, and hold
    // registers until then.
    Sums coming;
    warpgroup_arrive();
    mma.accumulate_ = SM90::GMMA::ScaleOut::Zero;
    CUTE_UNROLL
    for (int i = 0; i < size<2>(q); ++i) {
      gemm(mma, q(_, _, i), k(_, _, i, stage), coming);
      mma.accumulate_ = SM90::GMMA::ScaleOut::One;
    }
    warpgroup_commit_batch();
    warpgroup_fence_operand(coming);
    meanwhile();
    warpgroup_wait<0>();
    warpgroup_fence_operand(coming);
    CUTE_UNROLL
    for (int i = 0; i < size(coming); ++i) scores_(i) = coming(i);
  }

  // Keys from `left` on count for nothing.
  __device__ void Mask(int left) {
    const int of_thread = left - threadIdx.x % 4 * 2;
    CUTE_UNROLL
    for (int i = 0; i < cute::size(scores_); ++i) {
      if (i / 4 * 8 + i % 2 >= of_thread) scores_(i) = -INFINITY;
    }
  }

  // Adds a stage's values to the result, weighted by the scores, and waits until they are read.
  __device__ void Mix(int stage) {
    MixSteps<0, 1>(stage);
    MixSteps<1, 1>(stage);
    MixSteps<2, 2>(stage);
    WaitForResult();
  }

  // The first `queries` of the result, whose tokens are `token` elements apart, and of each the
  // first `size` elements, by way of shared memory that the tile's queries were in: a warp's by
  // itself. To: T, or F8E4M3 of what is rounded to T and multiplied with `factor`.
  template <typename To>
  __device__ void Store(T* shared, To* to, int64_t token, int queries, int size, float factor) {
    const int lane = threadIdx.x % 32, first = threadIdx.x % 128 / 32 * 16;
    char* const lines = reinterpret_cast<char*>(shared + first * kAttentionSize);
    StoreShared(lines, lane);
    __syncwarp();
    CUTE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int line = 4 * i + lane / 8, eight = lane % 8;
      if (first + line >= queries || 8 * eight >= size) return;
      To* const at = to + (first + line) * token + 8 * eight;
      const uint4 words = *reinterpret_cast<const uint4*>(lines + Offset(line, eight));
      if constexpr (std::is_same_v<T, To>) {
        *reinterpret_cast<uint4*>(at) = words;
      } else {
        *reinterpret_cast<Pack<To, 8>*>(at) = EightToE4M3<Native>(words, factor);
      }
    }
  }

 private:
  static constexpr auto kKMajor = cute::SM90::GMMA::Major::K;
  static constexpr auto kMnMajor = cute::SM90::GMMA::Major::MN;
  // CUDA's own type of the elements.
  using Native = std::conditional_t<std::is_same_v<T, cutlass::half_t>, __half, __nv_bfloat16>;
  using Sizes = cute::Shape<cute::_64, cute::_64, cute::_64>;
  using Tile = cute::Shape<cute::_64, cute::_64>;
  using KAtom = cute::SM90::GMMA::Layout_K_SW128_Atom<T>;
  using MnAtom = cute::SM90::GMMA::Layout_MN_SW128_Atom<T>;
  using ScoreMma = decltype(cute::make_tiled_mma(
      cute::SM90::GMMA::ss_op_selector<T, T, float, Sizes, kKMajor, kKMajor>()));
  using ResultMma = decltype(cute::make_tiled_mma(
      cute::SM90::GMMA::rs_op_selector<T, T, float, Sizes, kKMajor, kMnMajor>()));
  using Sums = decltype(cute::partition_fragment_C(ScoreMma{}, Tile{}));
  using Weights = decltype(cute::make_tensor<T>(cute::partition_shape_A(ResultMma{}, Tile{})));

  // Limit for the sum of weights of a thread and a query: each is finite in f16, then.
  static constexpr float kMostSum = 32768;

  // Steps are sixteen keys each, as the tensor cores take weights. As few at once as registers are
  // enough for, with the scores from there on, which may be needed again.
  template <int kFirst, int kSteps>
  __device__ void MixSteps(int stage) {
    Weigh<kFirst, kSteps>();
    if (__any_sync(~0u, !(new_sums_[0] < kMostSum) || !(new_sums_[1] < kMostSum))) {
      RaiseReferences<kFirst>();
      Weigh<kFirst, kSteps>();
    }
    sums_[0] += new_sums_[0];
    sums_[1] += new_sums_[1];
    Multiply<kFirst, kSteps>(stage);
  }

  // To weights, with their sums, of scores.
  template <int kFirst, int kSteps>
  __device__ void Weigh() {
    auto words = cute::recast<uint32_t>(weights_);
    CUTE_UNROLL
    for (int half = 0; half < 2; ++half) {
      new_sums_[half] = 0;
      CUTE_UNROLL
      for (int i = 2 * kFirst; i < 2 * (kFirst + kSteps); ++i) {
        const float a = FastExp2(fmaf(scores_(4 * i + 2 * half), scale_, -references_[half]));
        const float b = FastExp2(fmaf(scores_(4 * i + 2 * half + 1), scale_, -references_[half]));
        new_sums_[half] += a + b;
        words(2 * i + half) = Pair<Native>(a, b);
      }
    }
  }

  // Raises those of queries whose new weights are large, to the largest score from there on.
  // Others' stay, so that no query's result depends on those beside it.
  template <int kFirst>
  __device__ void RaiseReferences() {
    WaitForResult();
    CUTE_UNROLL
    for (int half = 0; half < 2; ++half) {
      float largest = -INFINITY;
      CUTE_UNROLL
      for (int i = 2 * kFirst; i < kTokens / 8; ++i) {
        largest = fmaxf(largest, fmaxf(scores_(4 * i + 2 * half), scores_(4 * i + 2 * half + 1)));
      }
      largest = ceilf(LargestOfQuad(largest) * scale_);
      const bool stays = LargestOfQuad(new_sums_[half]) < kMostSum;
      const float reference = stays ? references_[half] : largest;
      const float factor = FastExp2(references_[half] - reference);  // a power of 2, so exact
      references_[half] = reference;
      sums_[half] *= factor;
      CUTE_UNROLL
      for (int i = 0; i < kAttentionSize / 8; ++i) {
        result_(4 * i + 2 * half) *= factor;
        result_(4 * i + 2 * half + 1) *= factor;
      }
    }
  }

  // Begins to add values to the result.
  template <int kFirst, int kSteps>
  __device__ void Multiply(int stage) {
    using namespace cute;  // NOLINT: what its names are made for
    ResultMma mma;
    const Tensor values =
        mma.get_thread_slice(threadIdx.x % 128)
            .partition_fragment_B(make_tensor(
                make_smem_ptr(values_), tile_to_shape(MnAtom{}, Shape<_64, _64, Int<kStages>>{})));
    warpgroup_fence_operand(weights_);
    warpgroup_fence_operand(result_);
    warpgroup_arrive();
    CUTE_UNROLL
    for (int i = kFirst; i < kFirst + kSteps; ++i) {
      gemm(mma, weights_(_, _, i), values(_, _, i, stage), result_);
    }
    warpgroup_commit_batch();
    warpgroup_fence_operand(result_);
  }

  __device__ void WaitForResult() {
    cute::warpgroup_wait<0>();
    cute::warpgroup_fence_operand(result_);
  }

  // In bytes of eight elements of a line: as they are swizzled, so that no bank is twice in use.
  __device__ static int Offset(int line, int eight) {
    return line * 128 + ((eight ^ line % 8) << 4);
  }

  // A warp's 16 lines.
  __device__ void StoreShared(char* lines, int lane) const {
    const float factors[] = {1 / SumOfQuad(sums_[0]), 1 / SumOfQuad(sums_[1])};
    const auto begin = static_cast<uint32_t>(__cvta_generic_to_shared(lines));
    CUTE_UNROLL
    for (int i = 0; i < kAttentionSize / 8; i += 2) {
      uint32_t words[4];
      CUTE_UNROLL
      for (int j = 0; j < 4; ++j) {
        const int half = j % 2, at = 4 * (i + j / 2) + 2 * half;
        words[j] = Pair<Native>(result_(at) * factors[half], result_(at + 1) * factors[half]);
      }
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                   :
                   : "r"(begin + Offset(lane % 16, i + lane / 16)), "r"(words[0]), "r"(words[1]),
                     "r"(words[2]), "r"(words[3])
                   : "memory");
    }
  }

  const T* const queries_;
  const T* const keys_;
  const T* const values_;
  const float scale_;
  Sums scores_, result_;
  Weights weights_;
  float references_[2] = {-INFINITY, -INFINITY}, sums_[2] = {}, new_sums_[2];
};

}  // namespace latentd::backends::cuda::kernels::hopper
