#include "core/backends/cuda/binders/bound_kernel.h"

#include "core/backends/cuda/binders/binders.h"

namespace latentd::backends::cuda {
namespace {

struct BinderRow {
  Kernel kernel;
  Binder binder;
};

// In the order of Kernel.
constexpr BinderRow kBinders[] = {
    {Kernel::kConvolution, BindConvolution},
    {Kernel::kUpsampleConvolution, BindUpsampleConvolution},
    {Kernel::kLinear, BindLinear},
    {Kernel::kLinearGeglu, BindLinearGeglu},
    {Kernel::kMatmul, BindMatmul},
    {Kernel::kAttention, BindAttention},
    {Kernel::kGroupNorm, BindGroupNorm},
    {Kernel::kLayerNorm, BindLayerNorm},
    {Kernel::kSoftmax, BindSoftmax},
    {Kernel::kRowStd, BindRowStd},
    {Kernel::kIsFinite, BindIsFinite},
    {Kernel::kUnary, BindUnary},
    {Kernel::kClamp, BindClamp},
    {Kernel::kGeglu, BindGeglu},
    {Kernel::kCast, BindCast},
    {Kernel::kToPixels, BindToPixels},
    {Kernel::kIncrement, BindIncrement},
    {Kernel::kBinary, BindBinary},
    {Kernel::kCopy, BindCopy},
    {Kernel::kUpsample, BindUpsample},
    {Kernel::kEmbedding, BindEmbedding},
    {Kernel::kSelect, BindSelect},
    {Kernel::kTimestepEmbedding, BindTimestepEmbedding},
    {Kernel::kSchedulerStep, BindSchedulerStep},
};
static_assert(lowering::HasEveryKernel(kBinders));

}  // namespace

absl::StatusOr<BoundKernel> BindKernel(const Program& program, const Instruction& instruction,
                                       const Chooser& chooser, const Gpu& gpu) {
  return kBinders[static_cast<size_t>(instruction.kernel)].binder(
      {{program, instruction}, chooser, gpu});
}

}  // namespace latentd::backends::cuda
