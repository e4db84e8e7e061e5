// Convolutions on oneDNN, with bias, residual and activation in the same primitive.
#include "core/backends/cpu/binding/element.h"
#include "core/backends/cpu/binding/loop_nest.h"
#include "core/backends/cpu/products/product.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

// [n, h, w, c], which oneDNN spells [n, c, h, w] with another order in memory.
memory::desc Image(const View& image) {
  const graph::Shape& shape = image.shape;
  return Layout(image.dtype, {shape[0], shape[3], shape[1], shape[2]}, Tag::nhwc);
}

BoundKernel BindOne(const BinderArguments& a) {
  const auto& conv = std::get<graph::Conv2dAttributes>(a.instruction.attributes);
  const graph::Shape& w = a.operand(1).shape;
  const memory::dims weight_dims = {w[0], w[1], w[2], w[3]};
  Product p;
  p.name = "convolution";
  p.source = Image(a.operand(0));
  p.result = Image(a.result());
  p.plain_weight = PlainWeight(a, weight_dims, Tag::oihw);
  if (a.operand(2).present()) p.bias = Float32({w[0]}, Tag::a);
  const dnnl::convolution_forward::desc desc(
      dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, p.source,
      a.weight_is_held() ? PlainWeight(a, weight_dims, Tag::any) : p.plain_weight, p.bias, p.result,
      {conv.stride, conv.stride}, {conv.padding.top, conv.padding.left},
      {conv.padding.bottom, conv.padding.right});
  return BindProduct<dnnl::convolution_forward>(a, desc, p);
}

// The product alone, to which the residual is then added in place.
BoundKernel BindThenAdd(const BinderArguments& a) {
  Instruction product = a.instruction;
  product.operands[3] = View();
  BoundKernel kernel = BindOne({a.program, product, a.algorithm, a.machine});
  kernel.run = [run = std::move(kernel.run), add = a.machine.kernels->binary,
                loops = LoopsOver({&a.result(), &a.result(), &a.operand(3)}), y = a.result(),
                residual = a.operand(3)](const Frame& f) {
    RETURN_IF_ERROR(run(f));
    char* result = BytesOf(y, f);
    add(BinaryFunction::kAdd, ElementOf(y.dtype), loops, result, result, BytesOf(residual, f));
    return absl::OkStatus();
  };
  return kernel;
}

}  // namespace

absl::StatusOr<BoundKernel> BindConvolution(const BinderArguments& a) {
  if (a.algorithm == Algorithm::kWinograd) return BindWinograd(a);
  return a.algorithm == Algorithm::kThenAdd ? BindThenAdd(a) : BindOne(a);
}

}  // namespace latentd::backends::cpu
