// Values as strides over memory: what reshapes, slices and permutes become.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/graph/op.h"

namespace latentd::backends::lowering {

// A storage seen as a value of some shape.
struct View {
  int storage = -1;  // absent if negative
  int64_t offset = 0;
  graph::DType dtype = graph::DType::kF32;
  graph::Shape shape;
  std::vector<int64_t> strides;  // in elements, one for each dimension

  bool present() const { return storage >= 0; }
  // Row-major without gaps, as most kernels want it.
  bool dense() const;
  // True if each index of the first dimension is dense, however far apart they are.
  bool rows_dense() const;
};

View DenseView(int storage, graph::DType dtype, const graph::Shape& shape);
// The same elements in the same order under another shape, where strides can say that; nothing
// where they would have to be moved first. REQUIRES: as many elements.
std::optional<View> Reshaped(const View& view, const graph::Shape& shape);
// As [n, lines, last], where n and last are its first and its last dimension: nothing where a line
// has gaps, or those of an index of n are not at one distance. REQUIRES: at least two dimensions.
std::optional<View> AsLines(const View& view);
View Sliced(View view, const graph::SliceAttributes& slice);
View Permuted(const View& view, const std::vector<int64_t>& order);
// Read as a larger shape: trailing dimensions are aligned, those of size 1 stand still.
View BroadcastTo(const View& view, const graph::Shape& shape);
std::vector<int64_t> DenseStrides(const graph::Shape& shape);
// Elements of all dimensions but the last. REQUIRES: a last one.
inline int64_t RowsOf(const View& view) { return view.shape.elements() / view.shape[-1]; }

}  // namespace latentd::backends::lowering
