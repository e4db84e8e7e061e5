// What a backend's kernels take, which it tells lowering. What they do not take, lowering makes for
// them: a copy without gaps, a value in f32, the body of a fused node.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/backends/lowering/fused_patterns.h"
#include "core/backends/lowering/kernel.h"
#include "core/graph/op.h"

namespace latentd::backends::lowering {

// Which views an operand may be.
enum class Strides : uint8_t {
  kAny,
  kLastDense,  // the elements of the last dimension have no gaps
  kDense,      // View::dense()
};

// Its functions are pure and thread-safe: one answer for one question, or two programs of one graph
// differ.
class KernelRules {
 public:
  virtual ~KernelRules() = default;

  // Whether the kernel reads that operand in that dtype; if not, it is given it in f32. A weight
  // that is held (IsHeld) it takes in any.
  virtual bool Reads(Kernel kernel, size_t operand, graph::DType dtype) const = 0;

  // Which views of that operand the kernel reads; others are copied first. kCopy and kBinary read
  // any, the latter with strides of 0 where it is broadcast.
  virtual Strides StridesOf(Kernel kernel, size_t operand) const = 0;

  // Whether a fused node with a result of `dtype` runs as the one instruction that it matches, and
  // not as its body; `weight_is_held` says so of the second operand, where that is a weight.
  virtual bool RunsFused(const FusedMatch& match, graph::DType dtype,
                         bool weight_is_held) const = 0;
};

}  // namespace latentd::backends::lowering
