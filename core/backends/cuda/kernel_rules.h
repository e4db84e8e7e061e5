// What this backend's kernels take, for lowering.
//
// Internal to this directory.
#pragma once

#include "core/backends/lowering/kernel_rules.h"

namespace latentd::backends::cuda {

class CudaKernelRules : public lowering::KernelRules {
 public:
  // Hopper has kernels of its own.
  explicit CudaKernelRules(bool is_hopper) : is_hopper_(is_hopper) {}

  // Every dtype that the op table allows.
  bool Reads(lowering::Kernel kernel, size_t operand, graph::DType dtype) const override;

  // Sums and norms, convolutions of upsampled images other than in f32, and on Hopper GEGLU; what
  // else is computed of a result is a kernel of its own.
  bool RunsFused(const lowering::FusedMatch& match, graph::DType dtype,
                 bool weight_is_held) const override;

 private:
  const bool is_hopper_;
};

}  // namespace latentd::backends::cuda
