// Rules for operands of this backend's kernels, for lowering.
//
// Internal to this directory.
#pragma once

#include "core/backends/lowering/kernel_rules.h"

namespace latentd::backends::cuda {

class CudaKernelRules : public lowering::KernelRules {
 public:
  // Hopper has kernels of its own; `tf32` as Gpu has it.
  explicit CudaKernelRules(bool is_hopper, bool tf32 = false)
      : is_hopper_(is_hopper), tf32_(tf32) {}

  // Every dtype that the op table allows.
  bool Reads(lowering::Kernel kernel, size_t operand, graph::DType dtype) const override;

  // Sums and norms, convolutions of upsampled images (in f32 if that may be TF32), and on Hopper
  // GEGLU; what else is computed of a result is a kernel of its own.
  bool RunsFused(const lowering::FusedMatch& match, graph::DType dtype,
                 bool weight_is_held) const override;

 private:
  const bool is_hopper_, tf32_;
};

}  // namespace latentd::backends::cuda
