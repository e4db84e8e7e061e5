// One binder per Kernel: from an instruction to a BoundKernel. Operands are as Kernel says.
//
// Internal to this directory.
#pragma once

#include "core/backends/cpu/algorithms.h"
#include "core/backends/cpu/bound_kernel.h"

namespace latentd::backends::cpu {

struct BinderArguments : lowering::BinderArguments {
  Algorithm algorithm;
  const Machine& machine;
};

using Binder = absl::StatusOr<BoundKernel> (*)(const BinderArguments&);

absl::StatusOr<BoundKernel> BindConvolution(const BinderArguments&);
absl::StatusOr<BoundKernel> BindUpsampleConvolution(const BinderArguments&);
absl::StatusOr<BoundKernel> BindWinograd(const BinderArguments&);  // for both before
absl::StatusOr<BoundKernel> BindLinear(const BinderArguments&);
absl::StatusOr<BoundKernel> BindLinearGeglu(const BinderArguments&);
absl::StatusOr<BoundKernel> BindMatmul(const BinderArguments&);
absl::StatusOr<BoundKernel> BindAttention(const BinderArguments&);
absl::StatusOr<BoundKernel> BindGroupNorm(const BinderArguments&);
absl::StatusOr<BoundKernel> BindLayerNorm(const BinderArguments&);
absl::StatusOr<BoundKernel> BindSoftmax(const BinderArguments&);
absl::StatusOr<BoundKernel> BindRowStd(const BinderArguments&);
absl::StatusOr<BoundKernel> BindIsFinite(const BinderArguments&);
absl::StatusOr<BoundKernel> BindUnary(const BinderArguments&);
absl::StatusOr<BoundKernel> BindClamp(const BinderArguments&);
absl::StatusOr<BoundKernel> BindGeglu(const BinderArguments&);
absl::StatusOr<BoundKernel> BindCast(const BinderArguments&);
absl::StatusOr<BoundKernel> BindToPixels(const BinderArguments&);
absl::StatusOr<BoundKernel> BindIncrement(const BinderArguments&);
absl::StatusOr<BoundKernel> BindBinary(const BinderArguments&);
absl::StatusOr<BoundKernel> BindCopy(const BinderArguments&);
absl::StatusOr<BoundKernel> BindUpsample(const BinderArguments&);
absl::StatusOr<BoundKernel> BindEmbedding(const BinderArguments&);
absl::StatusOr<BoundKernel> BindSelect(const BinderArguments&);
absl::StatusOr<BoundKernel> BindTimestepEmbedding(const BinderArguments&);
absl::StatusOr<BoundKernel> BindSchedulerStep(const BinderArguments&);

}  // namespace latentd::backends::cpu
