#include "core/backends/cpu/binding/loop_nest.h"

namespace latentd::backends::cpu {

using lowering::View;

namespace {

// True if dimension `d` continues the last loop of `loops` for every view.
bool Continues(const LoopNest& loops, absl::Span<const View* const> views, int d) {
  if (loops.rank == 0) return false;
  for (size_t i = 0; i < views.size(); ++i) {
    const int64_t inner = views[i]->strides[d] * views[i]->shape[d];
    if (loops.strides[i][loops.rank - 1] != inner) return false;
  }
  return true;
}

}  // namespace

LoopNest LoopsOver(absl::Span<const View* const> views) {
  const graph::Shape& shape = views[0]->shape;
  LoopNest loops;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    const bool joined = Continues(loops, views, d);
    if (!joined) loops.sizes[loops.rank++] = 1;
    loops.sizes[loops.rank - 1] *= shape[d];
    for (size_t i = 0; i < views.size(); ++i) {
      loops.strides[i][loops.rank - 1] = views[i]->strides[d];
    }
  }
  if (loops.rank == 0) {
    loops.rank = 1;
    loops.sizes[0] = 1;
    for (auto& strides : loops.strides) strides[0] = 1;
  }
  return loops;
}

}  // namespace latentd::backends::cpu
