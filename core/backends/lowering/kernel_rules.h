// What kernels take: of views, all backends' the same, and what a backend tells lowering. What they
// do not take, lowering makes for them: a copy without gaps, a value in f32, the body of a fused
// node.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/backends/lowering/fused_patterns.h"
#include "core/backends/lowering/kernel.h"
#include "core/graph/op.h"

namespace latentd::backends::lowering {

// Which views an operand may be; others are copied first.
enum class Strides : uint8_t {
  kAny,        // with strides of 0 too, where it is broadcast
  kLastDense,  // the elements of the last dimension have no gaps
  kRowsDense,  // View::rows_dense()
  kDense,      // View::dense()
};
// `operand`: its index.
Strides StridesOf(Kernel kernel, size_t operand);

// Its functions are pure and thread-safe: one answer for one question, or two programs of one graph
// differ.
class KernelRules {
 public:
  virtual ~KernelRules() = default;

  // Whether the kernel reads that operand in that dtype; if not, it is given it in f32. A weight
  // that is held (IsHeld) it takes in any.
  virtual bool Reads(Kernel kernel, size_t operand, graph::DType dtype) const = 0;

  // Whether a fused node with a result of `dtype` runs as the one instruction that it matches, and
  // not as its body; `weight_is_held` says so of the second operand, where that is a weight.
  virtual bool RunsFused(const FusedMatch& match, graph::DType dtype,
                         bool weight_is_held) const = 0;
};

}  // namespace latentd::backends::lowering
