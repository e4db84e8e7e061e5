#include "core/backends/cpu/bound_kernel.h"

#include <array>

#include "absl/strings/string_view.h"
#include "core/backends/cpu/binders.h"

namespace latentd::backends::cpu {
namespace {

// In the order of Kernel.
constexpr std::array<Binder, kKernels> kBinders = {
    BindConvolution,
    BindLinear,
    BindLinearGeglu,
    BindMatmul,
    BindAttention,
    BindGroupNorm,
    BindLayerNorm,
    BindSoftmax,
    BindRowStd,
    BindUnary,
    BindGeglu,
    BindCast,
    BindBinary,
    BindCopy,
    BindUpsample,
    BindEmbedding,
    BindTimestepEmbedding,
};

}  // namespace

// A linear layer runs as oneDNN's matmul (0), which is fast from AVX-512 on, or as its convolution
// of one pixel (1).
int ChoicesOf(const Instruction& instruction) {
  return instruction.kernel == Kernel::kLinear ? 2 : 1;
}

int DefaultChoice(const Instruction& instruction, const Machine& machine) {
  const bool avx512 = absl::string_view(machine.kernels->name) == "avx512";
  return instruction.kernel == Kernel::kLinear && !avx512 ? 1 : 0;
}

absl::StatusOr<BoundKernel> BindKernel(const Program& program, const Instruction& instruction,
                                       int choice, const Machine& machine) {
  return kBinders[static_cast<size_t>(instruction.kernel)]({program, instruction, choice, machine});
}

}  // namespace latentd::backends::cpu
