#include "core/backends/cpu/bound_kernel.h"

#include <array>

#include "core/backends/cpu/binders.h"

namespace latentd::backends::cpu {
namespace {

// In the order of Kernel.
constexpr std::array<Binder, kKernels> kBinders = {
    BindConvolution, BindUpsampleConvolution,
    BindLinear,      BindLinearGeglu,
    BindMatmul,      BindAttention,
    BindGroupNorm,   BindLayerNorm,
    BindSoftmax,     BindRowStd,
    BindUnary,       BindGeglu,
    BindCast,        BindBinary,
    BindCopy,        BindUpsample,
    BindEmbedding,   BindTimestepEmbedding,
};

}  // namespace

absl::StatusOr<BoundKernel> BindKernel(const Program& program, const Instruction& instruction,
                                       Algorithm algorithm, const Machine& machine) {
  return kBinders[static_cast<size_t>(instruction.kernel)](
      {program, instruction, algorithm, machine});
}

}  // namespace latentd::backends::cpu
