#include "core/backends/lowering/view.h"

namespace latentd::backends::lowering {
namespace {

// Elements with one distance between neighbours.
struct Run {
  int64_t elements, stride;
};

// The outermost first: dimensions that go on where the next one ends are one run.
std::vector<Run> RunsOf(const View& view) {
  std::vector<Run> runs;
  for (int d = 0; d < view.shape.rank(); ++d) {
    const int64_t size = view.shape[d], stride = view.strides[d];
    if (size == 1) continue;
    if (!runs.empty() && runs.back().stride == stride * size) {
      runs.back() = {runs.back().elements * size, stride};
    } else {
      runs.push_back({size, stride});
    }
  }
  return runs;
}

// True if the dimensions from that one on have no gaps.
bool DenseFrom(const View& view, int first) {
  int64_t expected = 1;
  for (int d = view.shape.rank() - 1; d >= first; --d) {
    if (view.shape[d] != 1 && view.strides[d] != expected) return false;
    expected *= view.shape[d];
  }
  return true;
}

}  // namespace

std::vector<int64_t> DenseStrides(const graph::Shape& shape) {
  std::vector<int64_t> strides(shape.rank(), 1);
  for (int d = shape.rank() - 2; d >= 0; --d) strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

View DenseView(int storage, graph::DType dtype, const graph::Shape& shape) {
  return {storage, 0, dtype, shape, DenseStrides(shape)};
}

std::optional<View> Reshaped(const View& view, const graph::Shape& shape) {
  View result = view;
  result.shape = shape;
  result.strides.assign(shape.rank(), 1);
  std::vector<Run> runs = RunsOf(view);
  Run rest = {1, 1};  // the part of a run that is left for the outer dimensions
  for (int d = shape.rank() - 1; d >= 0; --d) {
    if (rest.elements == 1 && shape[d] != 1 && !runs.empty()) {
      rest = runs.back();
      runs.pop_back();
    }
    if (rest.elements % shape[d] != 0) return std::nullopt;
    result.strides[d] = rest.stride;
    rest = {rest.elements / shape[d], rest.stride * shape[d]};
  }
  return result;
}

bool View::dense() const { return DenseFrom(*this, 0); }

bool View::rows_dense() const { return DenseFrom(*this, 1); }

std::optional<View> AsLines(const View& view) {
  const int64_t rows = view.shape[0], last = view.shape[-1];
  std::optional<View> lines = Reshaped(view, {rows, view.shape.elements() / (rows * last), last});
  if (lines && last != 1 && lines->strides.back() != 1) return std::nullopt;
  return lines;
}

View Sliced(View view, const graph::SliceAttributes& slice) {
  std::vector<int64_t> dims = view.shape.dims();
  dims[slice.axis] = slice.end - slice.begin;
  view.offset += slice.begin * view.strides[slice.axis];
  view.shape = graph::Shape(std::move(dims));
  return view;
}

View Permuted(const View& x, const std::vector<int64_t>& order) {
  View view = x;
  std::vector<int64_t> dims;
  for (size_t d = 0; d < order.size(); ++d) {
    view.strides[d] = x.strides[order[d]];
    dims.push_back(x.shape[static_cast<int>(order[d])]);
  }
  view.shape = graph::Shape(std::move(dims));
  return view;
}

View BroadcastTo(const View& view, const graph::Shape& shape) {
  View wide = view;
  wide.shape = shape;
  wide.strides.assign(shape.rank(), 0);
  const int skipped = shape.rank() - view.shape.rank();
  for (int d = 0; d < view.shape.rank(); ++d) {
    if (view.shape[d] != 1) wide.strides[d + skipped] = view.strides[d];
  }
  return wide;
}

}  // namespace latentd::backends::lowering
