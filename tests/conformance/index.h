// Index arithmetic of row-major arrays, for naive.cc.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "core/device/shape.h"

namespace latentd::testing {

using Index = absl::InlinedVector<int64_t, 6>;

inline int64_t Flat(const device::Shape& shape, const Index& index) {
  int64_t flat = 0;
  for (int d = 0; d < shape.rank(); ++d) flat = flat * shape[d] + index[d];
  return flat;
}

// Calls function(index, flat index) for every element, in order.
template <typename Function>
void ForEachIndex(const device::Shape& shape, Function function) {
  Index index(shape.rank());
  for (int64_t flat = 0; flat < shape.elements(); ++flat) {
    function(static_cast<const Index&>(index), flat);
    for (int d = shape.rank() - 1; d >= 0 && ++index[d] == shape[d]; --d) index[d] = 0;
  }
}

}  // namespace latentd::testing
