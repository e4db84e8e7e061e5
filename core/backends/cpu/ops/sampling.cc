// Kernels of a noise scheduler's update between two evaluations of a network.
#include "core/backends/cpu/binding/binders.h"

namespace latentd::backends::cpu {

absl::StatusOr<BoundKernel> BindIncrement(const BinderArguments& a) {
  BoundKernel kernel;
  kernel.run = [x = a.operand(0), y = a.result()](const Frame& f) {
    // Unsigned, so that the largest number has a next one too.
    const auto* from = AddressOf<const uint64_t>(x, f);
    auto* to = AddressOf<uint64_t>(y, f);
    for (int64_t i = 0; i < x.shape.elements(); ++i) to[i] = from[i] + 1;
    return absl::OkStatus();
  };
  return kernel;
}

absl::StatusOr<BoundKernel> BindSchedulerStep(const BinderArguments& a) {
  const View state = a.operand(0), output = a.operand(1), noise = a.operand(2), line = a.operand(3),
             next = a.result();
  BoundKernel kernel;
  kernel.run = [=, run = a.machine.kernels->scheduler_step](const Frame& f) {
    run({.state = AddressOf<const float>(state, f),
         .output = AddressOf<const float>(output, f),
         .noise = AddressOf<const float>(noise, f),
         .line = AddressOf<const float>(line, f),
         .next = AddressOf<float>(next, f),
         .rows = state.shape[0],
         .elements = state.shape[2]});
    return absl::OkStatus();
  };
  return kernel;
}

}  // namespace latentd::backends::cpu
