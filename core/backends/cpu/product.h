// A Product is a convolution or a linear layer on oneDNN: a source, a weight that may be packed,
// and in the same primitive bias, residual and activation.
//
// Internal to this directory; include it in .cc files only.
#pragma once

#include "core/backends/cpu/binders.h"
#include "core/backends/cpu/onednn.h"

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

}  // namespace latentd::backends::cpu
