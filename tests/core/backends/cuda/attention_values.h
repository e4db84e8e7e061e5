// The right results of attention, in f64, for operands that merged projections leave.
#pragma once

#include <cstdint>
#include <optional>

#include "core/backends/cuda/kernels/attention/attention_args.h"
#include "tests/core/backends/cuda/gpu_array.h"

namespace latentd::backends::cuda::kernels {

struct AttentionCase {
  int64_t rows, heads, queries, keys;
  bool causal = false;
  float scale = 0.125f;
  int64_t size = kAttentionSize;  // a head's
};

// Layout of operands whose tokens are `token` elements apart and begin at `first`.
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

// To attend to RandomOperands' on the GPU; `both` has keys and values.
AttentionArgs ArgsOf(Element element, const AttentionCase& s, const GpuArray& query,
                     const GpuArray& both, const GpuArray& result);

// With weights, at most 1, that are rounded to an element, if there is one, before the values are
// multiplied with them.
Values AttentionOf(const AttentionCase& s, const AttentionOperands& o,
                   std::optional<Element> weights);

}  // namespace latentd::backends::cuda::kernels
