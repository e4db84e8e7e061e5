#include "core/backends/lowering/kernel_rules.h"

namespace latentd::backends::lowering {

Strides StridesOf(Kernel kernel, size_t operand) {
  switch (kernel) {
    case Kernel::kBinary:
    case Kernel::kCopy:
      return Strides::kAny;
    case Kernel::kAttention:
    case Kernel::kAttentionF8:
      return Strides::kLastDense;
    case Kernel::kGroupNormF8:
    case Kernel::kGroupNorm:  // the addend: in UNets, slices of the merged projections of time
      return operand == 3 ? Strides::kRowsDense : Strides::kDense;
    case Kernel::kLowRank:  // base and x, of which merged linears make slices; pools, and scales
      if (operand < 2) return Strides::kLines;
      return operand == 4 ? Strides::kDense : Strides::kRowsDense;
    case Kernel::kLinearGeglu:  // a path beside it has pools, slots and scales
      return operand < 3 || operand == 5 ? Strides::kDense : Strides::kRowsDense;
    default:
      return Strides::kDense;
  }
}

}  // namespace latentd::backends::lowering
