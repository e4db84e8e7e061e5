// Elements of arrays by index, for the loops in double precision.
#pragma once

#include "tests/conformance/index.h"
#include "tests/conformance/naive.h"

namespace latentd::testing {

inline double At(const Array& array, const Index& index) {
  return array.values[Flat(array.shape, index)];
}

// An array of `shape` whose element at index i is function(i).
template <typename Function>
Array Fill(const device::Shape& shape, Function function) {
  Array result{shape, std::vector<double>(shape.elements())};
  ForEachIndex(shape, [&](const Index& i, int64_t flat) { result.values[flat] = function(i); });
  return result;
}

}  // namespace latentd::testing
