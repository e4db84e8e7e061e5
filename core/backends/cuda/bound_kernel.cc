#include "core/backends/cuda/bound_kernel.h"

#include "absl/strings/str_cat.h"
#include "core/backends/cuda/binders.h"

namespace latentd::backends::cuda {
namespace {

// Many more shapes than models have.
constexpr size_t kMostFindings = 4096;

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

std::optional<std::string> Findings::Find(const std::string& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = choices_.find(key);
  if (found == choices_.end()) return std::nullopt;
  return found->second;
}

std::string Findings::Keep(const std::string& key, std::string choice) {
  absl::MutexLock lock(&mutex_);
  if (choices_.size() >= kMostFindings) choices_.clear();
  return choices_.try_emplace(key, std::move(choice)).first->second;
}

absl::Status Chooser::Missing(const std::string& key) {
  return absl::InvalidArgumentError(absl::StrCat("the plan has no choice for a ", key));
}

absl::StatusOr<BoundKernel> BindKernel(const Program& program, const Instruction& instruction,
                                       const Chooser& chooser, const Gpu& gpu) {
  return kBinders[static_cast<size_t>(instruction.kernel)].binder(
      {{program, instruction}, chooser, gpu});
}

}  // namespace latentd::backends::cuda
