#include "core/backends/cpu/binding/bound_kernel.h"

#include "core/backends/cpu/binding/binders.h"

namespace latentd::backends::cpu {
namespace {

#define LATENTD_BINDER(name) {Kernel::k##name, Bind##name},
constexpr lowering::BinderRow<Binder> kBinders[] = {LATENTD_KERNELS(LATENTD_BINDER)};
#undef LATENTD_BINDER
static_assert(lowering::HasEveryKernel(kBinders));

}  // namespace

absl::StatusOr<BoundKernel> BindKernel(const Program& program, const Instruction& instruction,
                                       Algorithm algorithm, const Machine& machine) {
  return kBinders[static_cast<size_t>(instruction.kernel)].binder(
      {{program, instruction}, algorithm, machine});
}

}  // namespace latentd::backends::cpu
