// Loops over views with strides, taken together where they can be. Host code.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/backends/cuda/kernels/common/element.h"

namespace latentd::backends::cuda::kernels {

// Tensor 0 is the result. In elements.
template <int kTensors>
struct LoopNest {
  int rank = 0;
  int64_t sizes[kMaxRank] = {};
  int64_t strides[kTensors][kMaxRank] = {};

  void Append(const LoopNest& from, int dimension) {
    sizes[rank] = from.sizes[dimension];
    for (int t = 0; t < kTensors; ++t) strides[t][rank] = from.strides[t][dimension];
    ++rank;
  }

  // True if dimension `inner` of `from` continues the last one here.
  bool Continues(const LoopNest& from, int inner) const {
    for (int t = 0; t < kTensors; ++t) {
      if (strides[t][rank - 1] != from.strides[t][inner] * from.sizes[inner]) return false;
    }
    return true;
  }

  void Merge(const LoopNest& from, int inner) {
    sizes[rank - 1] *= from.sizes[inner];
    for (int t = 0; t < kTensors; ++t) strides[t][rank - 1] = from.strides[t][inner];
  }
};

// The same elements by as few dimensions as possible and at least one, in the order in which they
// lie in the result.
template <int kTensors>
LoopNest<kTensors> Simplified(const LoopNest<kTensors>& nest) {
  int order[kMaxRank], count = 0;
  for (int i = 0; i < nest.rank; ++i) {
    if (nest.sizes[i] != 1) order[count++] = i;
  }
  std::stable_sort(order, order + count,
                   [&](int a, int b) { return nest.strides[0][a] > nest.strides[0][b]; });
  LoopNest<kTensors> simple;
  for (int i = 0; i < count; ++i) {
    if (simple.rank > 0 && simple.Continues(nest, order[i])) {
      simple.Merge(nest, order[i]);
    } else {
      simple.Append(nest, order[i]);
    }
  }
  if (simple.rank > 0) return simple;
  simple.rank = 1;
  simple.sizes[0] = 1;
  return simple;
}

}  // namespace latentd::backends::cuda::kernels
