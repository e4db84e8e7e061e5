// Linear layers on oneDNN, with bias, residual and activation in the same primitive.
#include "core/backends/cpu/products/product.h"

namespace latentd::backends::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

// x [.., in] as a matrix.
struct LinearSizes {
  int64_t rows, in, out;
};

LinearSizes LinearSizesOf(const BinderArguments& a) {
  const graph::Shape& weight = a.operand(1).shape;
  return {a.operand(0).shape.elements() / weight[1], weight[1], weight[0]};
}

BoundKernel BindLinearAsMatmul(const BinderArguments& a, const LinearSizes& s) {
  Product p;
  p.name = "matmul";
  p.source = Layout(a.operand(0).dtype, {s.rows, s.in}, Tag::ab);
  p.result = Layout(a.result().dtype, {s.rows, s.out}, Tag::ab);
  // [out, in] read as [in, out].
  p.plain_weight = PlainWeight(a, {s.in, s.out}, Tag::ba);
  if (a.operand(2).present()) p.bias = Float32({1, s.out}, Tag::ab);
  const dnnl::matmul::desc desc(
      p.source, a.weight_is_held() ? PlainWeight(a, {s.in, s.out}, Tag::any) : p.plain_weight,
      p.bias, p.result);
  return BindProduct<dnnl::matmul>(a, desc, p);
}

// A convolution of one pixel over an image of one column: what runs on vectors below AVX-512.
BoundKernel BindAsConvolution(const BinderArguments& a, const LinearSizes& s) {
  Product p;
  p.name = "convolution";
  p.source = Layout(a.operand(0).dtype, {1, s.in, s.rows, 1}, Tag::nhwc);
  p.result = Layout(a.result().dtype, {1, s.out, s.rows, 1}, Tag::nhwc);
  const memory::dims weight_dims = {s.out, s.in, 1, 1};
  p.plain_weight = PlainWeight(a, weight_dims, Tag::oihw);
  if (a.operand(2).present()) p.bias = Float32({s.out}, Tag::a);
  const dnnl::convolution_forward::desc desc(
      dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, p.source,
      a.weight_is_held() ? PlainWeight(a, weight_dims, Tag::any) : p.plain_weight, p.bias, p.result,
      {1, 1}, {0, 0}, {0, 0});
  return BindProduct<dnnl::convolution_forward>(a, desc, p);
}

}  // namespace

absl::StatusOr<BoundKernel> BindLinear(const BinderArguments& a) {
  return a.algorithm == Algorithm::kAsConvolution ? BindAsConvolution(a, LinearSizesOf(a))
                                                  : BindLinearAsMatmul(a, LinearSizesOf(a));
}

}  // namespace latentd::backends::cpu
