// One binder per Kernel: from an instruction to a BoundKernel. Operands are as Kernel says.
//
// Internal to this directory.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "core/backends/cuda/binders/bound_kernel.h"
#include "core/backends/cuda/kernels/common/element.h"
#include "core/backends/cuda/trial/plan_trial.h"

namespace latentd::backends::cuda {

struct BinderArguments : lowering::BinderArguments {
  const Chooser& chooser;
  const Gpu& gpu;
};

using Binder = absl::StatusOr<BoundKernel> (*)(const BinderArguments&);

#define LATENTD_BINDER(name) absl::StatusOr<BoundKernel> Bind##name(const BinderArguments&);
LATENTD_KERNELS(LATENTD_BINDER)
#undef LATENTD_BINDER

static_assert(static_cast<int>(kernels::Element::kF32) == static_cast<int>(device::DType::kF32) &&
              static_cast<int>(kernels::Element::kF16) == static_cast<int>(device::DType::kF16) &&
              static_cast<int>(kernels::Element::kBF16) == static_cast<int>(device::DType::kBF16) &&
              static_cast<int>(kernels::Element::kI64) == static_cast<int>(device::DType::kI64) &&
              static_cast<int>(kernels::Element::kU8) == static_cast<int>(device::DType::kU8) &&
              static_cast<int>(kernels::Element::kF8E4M3) ==
                  static_cast<int>(device::DType::kF8E4M3) &&
              static_cast<int>(kernels::Element::kF8E5M2) ==
                  static_cast<int>(device::DType::kF8E5M2));
inline kernels::Element ElementOf(const View& view) {
  return static_cast<kernels::Element>(view.dtype);
}

inline bool IsFloat(device::DType dtype) {
  return dtype == device::DType::kF32 || dtype == device::DType::kF16 ||
         dtype == device::DType::kBF16;
}

// The status of a launch for a node of that op.
absl::Status Launched(cudaError_t error, graph::Op op);

// Alignment in bytes of storages and workspaces in the arena, as cuBLASLt wants it.
inline constexpr int64_t kPlaceAlignment = 256;
// Alignment in bytes of a caller's memory.
inline constexpr int64_t kPortAlignment = 16;

// The bytes that each address of the view's elements at multiples of `strides` (in elements) is a
// multiple of, at most kPlaceAlignment. Storages begin at multiples of that, but for a caller's.
int64_t AlignmentOf(const Program& program, const View& view, absl::Span<const int64_t> strides);

// One of our own kernels: `launch` puts addresses into a copy of the arguments and launches it.
template <typename Args, typename Launch>
BoundKernel OwnKernel(const BinderArguments& a, const Args& args, Launch launch) {
  BoundKernel kernel;
  kernel.enqueue = [args, launch, op = a.instruction.op](const Frame& frame) {
    Args placed = args;
    return Launched(launch(placed, frame), op);
  };
  return kernel;
}

// True if operands and result begin at multiples of 16 bytes.
bool BeginAtWords(const BinderArguments& a);

// True if they do, and are of a dtype that we give to cuDNN.
bool CudnnReads(const BinderArguments& a);

// The choice for a shape that cuDNN does not have.
inline constexpr char kByProducts[] = "by products";

// cuDNN's plan for the shape, by the choice that there is or is made for it; null: it has none.
template <typename Shape>
absl::StatusOr<std::shared_ptr<const CudnnPlan>> CudnnPlanFor(const BinderArguments& a,
                                                              const Shape& shape) {
  using Plan = std::shared_ptr<const CudnnPlan>;
  const std::string key = shape.Key();
  const auto choose = [&]() -> absl::StatusOr<Choice> {
    absl::StatusOr<Choice> plan =
        a.gpu.cudnn.Choose(shape, [&](const CudnnPlan& plan) { return TryPlan(shape, plan); });
    if (absl::IsUnimplemented(plan.status())) return Choice{kByProducts};
    return plan;
  };
  return a.chooser.Get(key, choose, [&](absl::string_view choice) -> absl::StatusOr<Plan> {
    if (choice == kByProducts) return Plan();
    return a.gpu.cudnn.Load(key, choice);
  });
}

}  // namespace latentd::backends::cuda
