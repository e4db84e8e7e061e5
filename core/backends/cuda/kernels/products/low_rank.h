// Low-rank paths of rows, beside a product (graph::Op::kLowRank): first the scaled sums of each
// line of x, as many as there are ranks, then those times the second matrix on base. A line's
// result is the same bytes whatever lines and rows are beside it, and however many zeros its ranks
// end in.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/backends/cuda/kernels/common/element.h"

namespace latentd::backends::cuda::kernels {

// base and result [rows, lines, out], x [rows, lines, in], down [slots, rank, in], up [slots, out,
// rank], all of one float type; a line, a slot's matrix and a row's scales are dense, result is as
// a whole, and may be where base is. A row whose slot is none of them, or whose scales are all 0,
// is copied. Sums are in f32; the first ones are scaled and rounded to the elements' type.
struct LowRankArgs {
  Element element = Element::kBF16;
  const void* base = nullptr;
  const void* x = nullptr;
  const void* down = nullptr;
  const void* up = nullptr;
  const int64_t* slot = nullptr;  // [rows]
  const float* scale = nullptr;   // [rows, rank]
  void* hidden = nullptr;         // LowRankHiddenBytes, at a multiple of 16 bytes
  void* result = nullptr;
  int64_t rows = 0, lines = 0, in = 0, out = 0, slots = 0, rank = 0;
  // Distances in elements.
  int64_t base_row = 0, base_line = 0, x_row = 0, x_line = 0;
  int64_t down_slot = 0, up_slot = 0, scale_row = 0;
};

int64_t LowRankHiddenBytes(const LowRankArgs& args);

// cudaErrorInvalidValue: more rows or lines than a grid has blocks for.
cudaError_t LowRank(const LowRankArgs& args, cudaStream_t stream);

// True if clusters of blocks can have arguments whose addresses are multiples of 16 bytes.
constexpr bool FitsClusters(const LowRankArgs& a) {
  const int64_t distances =
      a.rank | a.base_row | a.base_line | a.x_row | a.x_line | a.down_slot | a.up_slot;
  return a.element != Element::kF32 && distances % 8 == 0 && (a.in | a.out) % 32 == 0 &&
         a.rank > 0 && a.lines > 0;
}

// The same bytes by clusters of blocks. REQUIRES: a GPU of compute capability 9.0, FitsClusters,
// and addresses that are multiples of 16 bytes.
cudaError_t LowRankByClusters(const LowRankArgs& args, cudaStream_t stream);

// GEGLU (elementwise.h) of what LowRank gives, the same bytes: result is [rows, lines, out / 2].
// REQUIRES: as LowRankByClusters, and an `out` that is a multiple of 64.
cudaError_t LowRankGeglu(const LowRankArgs& args, cudaStream_t stream);

}  // namespace latentd::backends::cuda::kernels
