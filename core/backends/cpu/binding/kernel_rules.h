// Rules for operands of this backend's kernels, for lowering.
//
// Internal to this directory.
#pragma once

#include "core/backends/cpu/binding/bound_kernel.h"
#include "core/backends/lowering/kernel_rules.h"

namespace latentd::backends::cpu {

class CpuKernelRules : public lowering::KernelRules {
 public:
  explicit CpuKernelRules(const Machine& machine) : machine_(machine) {}

  // Products of f16, and of bf16 where the processor has none, are f32's over weights that were
  // rounded: there to be compared with, not to be fast. f16 is converted for everything else too,
  // but for what only moves it.
  bool Reads(Kernel kernel, size_t operand, graph::DType dtype) const override;

  bool RunsFused(const lowering::FusedMatch& match, graph::DType dtype,
                 bool weight_is_held) const override;

 private:
  const Machine machine_;
};

}  // namespace latentd::backends::cpu
