#include "core/backends/cpu/binders.h"
#include "core/backends/cpu/element.h"
#include "core/backends/cpu/loop_nest.h"

namespace latentd::backends::cpu {
namespace {

UnaryFunction UnaryOf(graph::Op op) {
  switch (op) {
    case graph::Op::kSilu:
      return UnaryFunction::kSilu;
    case graph::Op::kGelu:
      return UnaryFunction::kGelu;
    case graph::Op::kQuickGelu:
      return UnaryFunction::kQuickGelu;
    case graph::Op::kRelu:
      return UnaryFunction::kRelu;
    default:
      return UnaryFunction::kTanh;
  }
}

BinaryFunction BinaryOf(graph::Op op) {
  switch (op) {
    case graph::Op::kAdd:
      return BinaryFunction::kAdd;
    case graph::Op::kSub:
      return BinaryFunction::kSub;
    case graph::Op::kMul:
      return BinaryFunction::kMul;
    default:
      return BinaryFunction::kDiv;
  }
}

}  // namespace

absl::StatusOr<BoundKernel> BindUnary(const BinderArguments& a) {
  BoundKernel kernel;
  kernel.run = [x = a.operand(0), y = a.result(), function = UnaryOf(a.instruction.op),
                run = a.machine.kernels->unary](const Frame& f) {
    run(function, ElementOf(x.dtype), BytesOf(x, f), BytesOf(y, f), x.shape.elements());
    return absl::OkStatus();
  };
  return kernel;
}

absl::StatusOr<BoundKernel> BindGeglu(const BinderArguments& a) {
  BoundKernel kernel;
  kernel.run = [x = a.operand(0), y = a.result(), run = a.machine.kernels->geglu](const Frame& f) {
    run(ElementOf(x.dtype), BytesOf(x, f), BytesOf(y, f), y.shape.elements() / y.shape[-1],
        y.shape[-1]);
    return absl::OkStatus();
  };
  return kernel;
}

absl::StatusOr<BoundKernel> BindBinary(const BinderArguments& a) {
  BoundKernel kernel;
  kernel.run = [left = a.operand(0), right = a.operand(1), y = a.result(),
                function = BinaryOf(a.instruction.op),
                loops = LoopsOver({&a.result(), &a.operand(0), &a.operand(1)}),
                run = a.machine.kernels->binary](const Frame& f) {
    run(function, ElementOf(y.dtype), loops, BytesOf(y, f), BytesOf(left, f), BytesOf(right, f));
    return absl::OkStatus();
  };
  return kernel;
}

}  // namespace latentd::backends::cpu
