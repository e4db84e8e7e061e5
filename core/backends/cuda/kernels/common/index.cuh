// From the number of a thread's item to its place in views with strides.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/backends/cuda/kernels/common/divisor.cuh"
#include "core/backends/cuda/kernels/common/element.h"
#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/common/loop_nest.h"

namespace latentd::backends::cuda::kernels {

// The innermost dimension is counted in packs of `pack` elements.
template <int kTensors, int kRank, typename Number>
struct PackIndex {
  using Division = std::conditional_t<sizeof(Number) == 4, Divisor, WideDivisor>;

  int rank;
  int pack;
  Division packs[kRank];  // in the dimension
  int64_t inner;          // elements of the innermost dimension
  int64_t strides[kTensors][kRank];
  int64_t inner_strides[kTensors];

  PackIndex(const LoopNest<kTensors>& nest, int pack)
      : rank(nest.rank), pack(pack), inner(nest.sizes[nest.rank - 1]) {
    for (int i = 0; i < nest.rank; ++i) {
      const bool innermost = i == nest.rank - 1;
      packs[i] = Division(innermost ? CeilDiv(nest.sizes[i], pack) : nest.sizes[i]);
      for (int t = 0; t < kTensors; ++t) strides[t][i] = nest.strides[t][i];
    }
    for (int t = 0; t < kTensors; ++t) inner_strides[t] = nest.strides[t][nest.rank - 1];
  }

  // Sets where each tensor's pack begins. Returns how many elements there are from there on.
  __device__ int64_t Locate(Number item, int64_t (&offsets)[kTensors]) const {
    int64_t left = inner;
#pragma unroll
    for (int t = 0; t < kTensors; ++t) offsets[t] = 0;
#pragma unroll
    for (int i = kRank - 1; i >= 0; --i) {
      if (i >= rank) continue;
      Number at = item;
      if (i > 0) item = packs[i].Divide(item, at);
      int64_t element = at;
      if (i == rank - 1) {
        element *= pack;
        left -= element;
      }
#pragma unroll
      for (int t = 0; t < kTensors; ++t) offsets[t] += element * strides[t][i];
    }
    return left;
  }
};

template <int kTensors>
int64_t PacksOf(const LoopNest<kTensors>& nest, int pack) {
  int64_t packs = CeilDiv(nest.sizes[nest.rank - 1], pack);
  for (int i = 0; i < nest.rank - 1; ++i) packs *= nest.sizes[i];
  return packs;
}

// Calls launch(PackIndex) with the narrowest index that is enough.
template <int kTensors, typename Function>
cudaError_t ForIndex(const LoopNest<kTensors>& nest, int pack, const Function& launch) {
  if (PacksOf(nest, pack) >= kDivisible) {
    return launch(PackIndex<kTensors, kMaxRank, uint64_t>(nest, pack));
  }
  if (nest.rank == 1) return launch(PackIndex<kTensors, 1, uint32_t>(nest, pack));
  if (nest.rank <= 3) return launch(PackIndex<kTensors, 3, uint32_t>(nest, pack));
  return launch(PackIndex<kTensors, kMaxRank, uint32_t>(nest, pack));
}

}  // namespace latentd::backends::cuda::kernels
