#include "core/backends/cuda/binders/bound_kernel.h"

#include "core/backends/cuda/binders/binders.h"

namespace latentd::backends::cuda {
namespace {

#define LATENTD_BINDER(name) {Kernel::k##name, Bind##name},
constexpr lowering::BinderRow<Binder> kBinders[] = {LATENTD_KERNELS(LATENTD_BINDER)};
#undef LATENTD_BINDER
static_assert(lowering::HasEveryKernel(kBinders));

}  // namespace

absl::StatusOr<BoundKernel> BindKernel(const Program& program, const Instruction& instruction,
                                       const Chooser& chooser, const Gpu& gpu) {
  return kBinders[static_cast<size_t>(instruction.kernel)].binder(
      {{program, instruction}, chooser, gpu});
}

}  // namespace latentd::backends::cuda
