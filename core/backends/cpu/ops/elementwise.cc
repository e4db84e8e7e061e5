#include "core/backends/cpu/binding/binders.h"
#include "core/backends/cpu/binding/element.h"
#include "core/backends/cpu/binding/loop_nest.h"
#include "core/backends/lowering/functions.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::cpu {

absl::StatusOr<BoundKernel> BindUnary(const BinderArguments& a) {
  ASSIGN_OR_RETURN(const UnaryFunction function,
                   lowering::UnaryFunctionOf<UnaryFunction>(a.instruction.op));
  BoundKernel kernel;
  kernel.run = [x = a.operand(0), y = a.result(), function,
                run = a.machine.kernels->unary](const Frame& f) {
    run(function, ElementOf(x.dtype), BytesOf(x, f), BytesOf(y, f), x.shape.elements());
    return absl::OkStatus();
  };
  return kernel;
}

absl::StatusOr<BoundKernel> BindClamp(const BinderArguments& a) {
  BoundKernel kernel;
  kernel.run = [x = a.operand(0), y = a.result(),
                clamp = std::get<graph::ClampAttributes>(a.instruction.attributes),
                run = a.machine.kernels->clamp](const Frame& f) {
    run(ElementOf(x.dtype), BytesOf(x, f), BytesOf(y, f), x.shape.elements(), clamp.min, clamp.max);
    return absl::OkStatus();
  };
  return kernel;
}

absl::StatusOr<BoundKernel> BindGeglu(const BinderArguments& a) {
  BoundKernel kernel;
  kernel.run = [x = a.operand(0), y = a.result(), run = a.machine.kernels->geglu](const Frame& f) {
    run(ElementOf(x.dtype), BytesOf(x, f), BytesOf(y, f), RowsOf(y), y.shape[-1]);
    return absl::OkStatus();
  };
  return kernel;
}

absl::StatusOr<BoundKernel> BindBinary(const BinderArguments& a) {
  ASSIGN_OR_RETURN(const BinaryFunction function,
                   lowering::BinaryFunctionOf<BinaryFunction>(a.instruction.op));
  BoundKernel kernel;
  kernel.run = [left = a.operand(0), right = a.operand(1), y = a.result(), function,
                loops = LoopsOver({&a.result(), &a.operand(0), &a.operand(1)}),
                run = a.machine.kernels->binary](const Frame& f) {
    run(function, ElementOf(y.dtype), loops, BytesOf(y, f), BytesOf(left, f), BytesOf(right, f));
    return absl::OkStatus();
  };
  return kernel;
}

}  // namespace latentd::backends::cpu
