#include "core/backends/cpu/bound_kernel.h"

#include <array>

#include "absl/strings/string_view.h"
#include "core/backends/cpu/binders.h"
#include "core/backends/cpu/onednn.h"

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

// Above this oneDNN is faster without the residual, which costs it its better convolution, and an
// addition after it (measured from 512 KiB to 16 MiB on AVX-512).
constexpr int64_t kLargeElements = int64_t{1} << 18;

bool HasAvx512(const Machine& machine) {
  return absl::string_view(machine.kernels->name) == "avx512" && OneDnnUsesAvx512();
}

bool AddsResidualOnly(const Instruction& instruction) {
  return instruction.kernel == Kernel::kConvolution && instruction.operands[3].present() &&
         instruction.activation == graph::Op::kInput;
}

}  // namespace

bool MultipliesInBf16(const Machine& machine) { return HasAvx512(machine) && OneDnnUsesBf16(); }

// A linear layer runs as oneDNN's matmul (0), which is fast from AVX-512 on, or as its convolution
// of one pixel (1). A convolution adds its residual itself (0), or it is added afterwards (1).
int ChoicesOf(const Instruction& instruction) {
  return instruction.kernel == Kernel::kLinear || AddsResidualOnly(instruction) ? 2 : 1;
}

int DefaultChoice(const Instruction& instruction, const Machine& machine) {
  const bool avx512 = HasAvx512(machine);
  if (instruction.kernel == Kernel::kLinear) return avx512 ? 0 : 1;
  const bool large = instruction.result.shape.elements() >= kLargeElements;
  return avx512 && large && AddsResidualOnly(instruction) ? 1 : 0;
}

absl::StatusOr<BoundKernel> BindKernel(const Program& program, const Instruction& instruction,
                                       int choice, const Machine& machine) {
  return kBinders[static_cast<size_t>(instruction.kernel)]({program, instruction, choice, machine});
}

}  // namespace latentd::backends::cpu
