#include "core/backends/cuda/kernel_rules.h"

namespace latentd::backends::cuda {

using lowering::Kernel;

bool CudaKernelRules::Reads(Kernel, size_t, graph::DType) const { return true; }

bool CudaKernelRules::RunsFused(const lowering::FusedMatch& match, graph::DType dtype,
                                bool weight_is_held) const {
  switch (match.kernel) {
    case Kernel::kConvolution:
    case Kernel::kLinear:
    case Kernel::kF8Linear:
    case Kernel::kF8Convolution:
      return match.activation == graph::Op::kInput;
    case Kernel::kGroupNorm:
    case Kernel::kGroupNormF8:
    case Kernel::kLayerNormF8:
    case Kernel::kGegluF8:
    case Kernel::kAttentionF8:
    case Kernel::kF8LinearGeglu:
      return true;
    case Kernel::kUpsampleConvolution:  // by cuDNN
      return (tf32_ || dtype != graph::DType::kF32) && weight_is_held;
    case Kernel::kLinearGeglu:
      return is_hopper_ && dtype != graph::DType::kF32 && weight_is_held;
    default:
      return false;
  }
}

}  // namespace latentd::backends::cuda
