#include "core/backends/lowering/kernel_rules.h"

namespace latentd::backends::lowering {

Strides StridesOf(Kernel kernel) {
  if (kernel == Kernel::kBinary || kernel == Kernel::kCopy) return Strides::kAny;
  return kernel == Kernel::kAttention ? Strides::kLastDense : Strides::kDense;
}

}  // namespace latentd::backends::lowering
