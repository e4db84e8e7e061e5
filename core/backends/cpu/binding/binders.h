// One binder per Kernel: from an instruction to a BoundKernel. Operands are as Kernel says.
//
// Internal to this directory.
#pragma once

#include "core/backends/cpu/binding/algorithms.h"
#include "core/backends/cpu/binding/bound_kernel.h"

namespace latentd::backends::cpu {

struct BinderArguments : lowering::BinderArguments {
  Algorithm algorithm;
  const Machine& machine;
};

using Binder = absl::StatusOr<BoundKernel> (*)(const BinderArguments&);

#define LATENTD_BINDER(name) absl::StatusOr<BoundKernel> Bind##name(const BinderArguments&);
LATENTD_KERNELS(LATENTD_BINDER)
#undef LATENTD_BINDER

// For both kinds of convolution, before either.
absl::StatusOr<BoundKernel> BindWinograd(const BinderArguments&);

}  // namespace latentd::backends::cpu
