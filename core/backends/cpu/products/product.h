// A Product is a convolution or a linear layer on oneDNN: a source, a weight that may be packed,
// and in the same primitive bias, residual and activation.
//
// Internal to this directory; include it in .cc files only.
#pragma once

#include "core/backends/cpu/binding/binders.h"
#include "core/backends/cpu/binding/onednn.h"

namespace latentd::backends::cpu {

struct Product {
  const char* name;  // the primitive's, for the packed weight's form
  dnnl::primitive primitive;
  dnnl::memory::desc source, plain_weight, weight, bias, result, scratchpad;
};

// Layout of a weight before it is packed: in f32 unless x has the weight's dtype (FormatFor).
inline dnnl::memory::desc PlainWeight(const BinderArguments& a, const dnnl::memory::dims& dims,
                                      dnnl::memory::format_tag tag) {
  return Layout(a.operand(0).dtype, dims, tag);
}

// REQUIRES: the instruction's operands are x, weight, bias or absent, residual or absent.
BoundKernel BindProduct(const BinderArguments& a, const Product& product);

// Likewise by the first implementation of `Forward` that can be relied on, which chooses what
// `product` lacks: the primitive, and the layouts of packed weight and scratchpad.
template <typename Forward>
BoundKernel BindProduct(const BinderArguments& a, const typename Forward::desc& desc,
                        Product product) {
  const auto* residual = a.operand(3).present() ? &product.result : nullptr;
  typename Forward::primitive_desc chosen(desc, Attributes(residual, a.instruction.activation),
                                          Engine());
  SkipUnsound(chosen);
  product.weight = chosen.weights_desc();
  product.scratchpad = chosen.scratchpad_desc();
  product.primitive = Forward(chosen);
  return BindProduct(a, product);
}

}  // namespace latentd::backends::cpu
