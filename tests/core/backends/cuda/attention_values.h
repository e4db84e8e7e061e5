// What attention must give, in f64, of operands that merged projections leave.
#pragma once

#include <cstdint>
#include <optional>

#include "tests/core/backends/cuda/gpu_array.h"

namespace latentd::backends::cuda::kernels {

inline constexpr int64_t kAttentionSize = 64;  // of a head

struct AttentionCase {
  int64_t rows, heads, queries, keys;
  bool causal = false;
  float scale = 0.125f;
};

// Of operands whose tokens are `token` elements apart and begin at `first`.
struct Strided {
  int64_t token, first;
  double at(const Values& values, int64_t row, int64_t tokens, int64_t i, int64_t element) const {
    return values[(row * tokens + i) * token + first + element];
  }
};

struct AttentionOperands {
  Values query, key, value;
  Strided query_strides, key_strides, value_strides;
};

// Keys and values are slices of one tensor.
AttentionOperands RandomOperands(Element element, const AttentionCase& s);

// With weights, at most 1, that are rounded to an element, if there is one, before the values are
// multiplied with them.
Values AttentionOf(const AttentionCase& s, const AttentionOperands& o,
                   std::optional<Element> weights);

}  // namespace latentd::backends::cuda::kernels
