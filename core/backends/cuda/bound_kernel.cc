#include "core/backends/cuda/bound_kernel.h"

#include "absl/strings/str_cat.h"
#include "core/backends/cuda/binders.h"

namespace latentd::backends::cuda {
namespace {

// Many more shapes than models have.
constexpr size_t kMostFindings = 4096;

Binder BinderOf(Kernel kernel) {
  switch (kernel) {
    case Kernel::kConvolution:
      return BindConvolution;
    case Kernel::kLinear:
      return BindLinear;
    case Kernel::kMatmul:
      return BindMatmul;
    case Kernel::kAttention:
      return BindAttention;
    case Kernel::kGroupNorm:
      return BindGroupNorm;
    case Kernel::kLayerNorm:
      return BindLayerNorm;
    case Kernel::kSoftmax:
      return BindSoftmax;
    case Kernel::kRowStd:
      return BindRowStd;
    case Kernel::kIsFinite:
      return BindIsFinite;
    case Kernel::kUnary:
      return BindUnary;
    case Kernel::kClamp:
      return BindClamp;
    case Kernel::kGeglu:
      return BindGeglu;
    case Kernel::kCast:
      return BindCast;
    case Kernel::kToPixels:
      return BindToPixels;
    case Kernel::kIncrement:
      return BindIncrement;
    case Kernel::kBinary:
      return BindBinary;
    case Kernel::kCopy:
      return BindCopy;
    case Kernel::kUpsample:
      return BindUpsample;
    case Kernel::kEmbedding:
      return BindEmbedding;
    case Kernel::kSelect:
      return BindSelect;
    case Kernel::kTimestepEmbedding:
      return BindTimestepEmbedding;
    case Kernel::kSchedulerStep:
      return BindSchedulerStep;
    case Kernel::kLinearGeglu:
      return BindLinearGeglu;
    case Kernel::kUpsampleConvolution:  // run as its body (kernel_rules.h)
      break;
  }
  return nullptr;
}

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
  const Binder binder = BinderOf(instruction.kernel);
  if (binder == nullptr) return absl::InternalError("an instruction that no kernel computes");
  return binder({program, instruction, chooser, gpu});
}

}  // namespace latentd::backends::cuda
