#include "tests/conformance/naive_sampling.h"

#include <algorithm>
#include <cmath>

#include "tests/conformance/arrays.h"

namespace latentd::testing {

using graph::Node;

Array IsFiniteNaively(const Node& node, const NaiveOperands& x) {
  const int64_t row = x[0]->shape.elements() / x[0]->shape[0];
  return Fill(node.shape, [&](const Index& i) {
    const auto begin = x[0]->values.begin() + i[0] * row;
    return std::all_of(begin, begin + row, [](double value) { return std::isfinite(value); });
  });
}

Array ClampNaively(const Node& node, const NaiveOperands& x) {
  const auto& clamp = std::get<graph::ClampAttributes>(node.attributes);
  return Fill(node.shape, [&](const Index& i) {
    const double value = At(*x[0], i);
    return value < clamp.min ? clamp.min : value > clamp.max ? clamp.max : value;
  });
}

Array ToPixelsNaively(const Node& node, const NaiveOperands& x) {
  return Fill(node.shape, [&](const Index& i) {
    const double unit = At(*x[0], i) / 2 + 0.5;
    return std::isnan(unit) ? 0 : std::nearbyint(255 * std::clamp(unit, 0.0, 1.0));
  });
}

Array IncrementNaively(const Node& node, const NaiveOperands& x) {
  return Fill(node.shape, [&](const Index& i) { return At(*x[0], i) + 1; });
}

Array SelectNaively(const Node& node, const NaiveOperands& x) {
  const auto last = static_cast<double>(x[0]->shape[1] - 1);
  return Fill(node.shape, [&](const Index& i) {
    const double entry = std::clamp(x[1]->values[i[0]], 0.0, last);
    return At(*x[0], {i[0], static_cast<int64_t>(entry), i[1]});
  });
}

Array SchedulerStepNaively(const Node& node, const NaiveOperands& x) {
  return Fill(node.shape, [&](const Index& i) {
    const Index element = {i[0], i[2]};
    double sum = 0;
    for (int64_t k = 0; k < 6; ++k) {
      const double value = k < 4                       ? At(*x[0], {i[0], k, i[2]})
                           : k == 4                    ? At(*x[1], element)
                           : At(*x[3], {i[0], 2}) != 0 ? At(*x[2], element)
                                                       : 0;
      sum += At(*x[3], {i[0], 3 + 6 * i[1] + k}) * value;
    }
    return sum;
  });
}

}  // namespace latentd::testing
