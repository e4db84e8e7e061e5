#include "core/backends/cpu/program.h"

namespace latentd::backends::cpu {

std::vector<int64_t> DenseStrides(const graph::Shape& shape) {
  std::vector<int64_t> strides(shape.rank(), 1);
  for (int d = shape.rank() - 2; d >= 0; --d) strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

View DenseView(int storage, graph::DType dtype, const graph::Shape& shape) {
  return {storage, 0, dtype, shape, DenseStrides(shape)};
}

bool View::dense() const {
  int64_t expected = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    if (shape[d] != 1 && strides[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

}  // namespace latentd::backends::cpu
