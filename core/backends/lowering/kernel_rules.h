// Rules for the operands of kernels: for views the same in all backends, and others that each
// backend has. Lowering converts operands that break them: into a copy without gaps, a value in
// f32, the body of a fused node.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/backends/lowering/fused_patterns.h"
#include "core/backends/lowering/kernel.h"
#include "core/graph/op.h"

namespace latentd::backends::lowering {

// The views that an operand may be; others are copied first.
enum class Strides : uint8_t {
  kAny,        // with strides of 0 too, where it is broadcast
  kLastDense,  // the elements of the last dimension have no gaps
  kLines,      // as AsLines has them
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

  // True if the kernel reads that operand in that dtype; if not, it gets it in f32. It takes a
  // weight that is held (IsHeld) in any.
  virtual bool Reads(Kernel kernel, size_t operand, graph::DType dtype) const = 0;

  // True if a fused node with a result of `dtype` runs as the one instruction that it matches, not
  // as its body; `weight_is_held` says so of the second operand, where that is a weight.
  virtual bool RunsFused(const FusedMatch& match, graph::DType dtype,
                         bool weight_is_held) const = 0;
};

}  // namespace latentd::backends::lowering
