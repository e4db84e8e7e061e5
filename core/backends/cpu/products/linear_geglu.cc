// A linear layer and the GEGLU that alone reads it, as two products of half the width: the gate
// through gelu into the workspace, then the other half times the gate.
#include <array>

#include "absl/strings/str_cat.h"
#include "core/backends/cpu/binding/binders.h"
#include "core/backends/cpu/products/packing.h"
#include "core/base/alignment.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

constexpr int kGateArgument = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;

struct Sizes {
  int64_t rows, in, out;  // out: of one half
  device::DType dtype;    // dtype of all but the bias
};

struct Half {
  const char* name;  // the primitive's, for the packed weight's form
  memory::desc plain_weight, weight, scratchpad;
  std::shared_ptr<Primitive> primitive;
};

// Bytes of one half of the packed weight.
size_t StrideOf(const memory::desc& half) { return RoundUp(half.get_size(), device::kAlignment); }

// Both halves of [2 * out, in], each in the layout of the products, one behind the other.
weights::WeightFormat FormatOf(const Half& one, device::DType stored) {
  const size_t widened = FormatFor(one.name, stored, one.plain_weight, one.weight).scratch_bytes;
  return {absl::StrCat(kHalvesForm, LayoutForm(one.name, one.weight)), 2 * StrideOf(one.weight),
          2 * widened};
}

// Layout of a half's result, in which the other half's post-op reads it.
memory::desc ResultLayout(const Sizes& s) {
  return OneDnnUsesAvx512() ? Layout(s.dtype, {s.rows, s.out}, Tag::ab)
                            : Layout(s.dtype, {1, s.out, s.rows, 1}, Tag::nhwc);
}

template <typename Forward>
Half HalfOf(const char* name, typename Forward::primitive_desc desc,
            const memory::desc& plain_weight, const memory::desc& bias) {
  SkipUnsound(desc);
  std::vector<std::pair<int, memory::desc>> arguments = {
      {DNNL_ARG_SRC, desc.src_desc()},
      {DNNL_ARG_WEIGHTS, desc.weights_desc()},
      {DNNL_ARG_DST, desc.dst_desc()},
      {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()},
      // Read only where a post-op names it.
      {kGateArgument, desc.dst_desc()},
  };
  if (!bias.is_zero()) arguments.emplace_back(DNNL_ARG_BIAS, bias);
  return {name, plain_weight, desc.weights_desc(), desc.scratchpad_desc(),
          std::make_shared<Primitive>(Forward(desc), arguments)};
}

Half HalfAsMatmul(const Sizes& s, bool has_bias, const dnnl::primitive_attr& attributes) {
  const memory::desc bias = has_bias ? Float32({1, s.out}, Tag::ab) : memory::desc();
  const dnnl::matmul::desc desc(Layout(s.dtype, {s.rows, s.in}, Tag::ab),
                                Layout(s.dtype, {s.in, s.out}, Tag::any), bias, ResultLayout(s));
  return HalfOf<dnnl::matmul>("matmul", {desc, attributes, Engine()},
                              Layout(s.dtype, {s.in, s.out}, Tag::ba), bias);
}

// A convolution of one pixel over an image of one column: below AVX-512 the only matrix product on
// vectors, since "gemm:jit" is unsound (onednn.h) and what is left of matmul has no vectors.
Half HalfAsConvolution(const Sizes& s, bool has_bias, const dnnl::primitive_attr& attributes) {
  const memory::dims weight = {s.out, s.in, 1, 1};
  const memory::desc bias = has_bias ? Float32({s.out}, Tag::a) : memory::desc();
  const dnnl::convolution_forward::desc desc(
      dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
      Layout(s.dtype, {1, s.in, s.rows, 1}, Tag::nhwc), Layout(s.dtype, weight, Tag::any), bias,
      ResultLayout(s), {1, 1}, {0, 0}, {0, 0});
  return HalfOf<dnnl::convolution_forward>("convolution", {desc, attributes, Engine()},
                                           Layout(s.dtype, weight, Tag::oihw), bias);
}

// x times one half of the weight, then `post_ops`.
Half MakeHalf(const Sizes& s, bool has_bias, const dnnl::post_ops& post_ops) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(post_ops);
  return OneDnnUsesAvx512() ? HalfAsMatmul(s, has_bias, attributes)
                            : HalfAsConvolution(s, has_bias, attributes);
}

dnnl::post_ops Gelu() {
  dnnl::post_ops post_ops;
  post_ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_gelu_erf, 0.0f, 0.0f);
  return post_ops;
}

dnnl::post_ops Times(const memory::desc& other) {
  dnnl::post_ops post_ops;
  post_ops.append_binary(dnnl::algorithm::binary_mul, other);
  return post_ops;
}

}  // namespace

absl::Status PackHalves(absl::string_view layouts, const device::ConstBuffer& plain,
                        absl::Span<char> packed) {
  ASSIGN_OR_RETURN(const std::vector<Reordering> half, ReorderingsOf(layouts, 1));
  const device::ConstBuffer both = AsPlain(plain, half[0].plain);
  const size_t bytes = half[0].plain.get_size(), stride = StrideOf(half[0].packed);
  RETURN_IF_ERROR(CheckSizes(layouts, both, 2 * bytes, packed, 2 * stride));
  for (int i = 0; i < 2; ++i) {
    half[0].Run(static_cast<const char*>(both.data()) + i * bytes, packed.data() + i * stride);
  }
  return absl::OkStatus();
}

absl::StatusOr<BoundKernel> BindLinearGeglu(const BinderArguments& a) {
  const graph::Shape& w = a.operand(1).shape;
  const Sizes s = {a.operand(0).shape.elements() / w[1], w[1], w[0] / 2, a.operand(0).dtype};
  const memory::desc result = ResultLayout(s);
  const View& bias = a.operand(2);
  const Half gate = MakeHalf(s, bias.present(), Gelu());
  const Half linear = MakeHalf(s, bias.present(), Times(result));
  if (gate.weight != linear.weight) {
    return absl::InternalError("the halves of a GEGLU want their weights packed differently");
  }
  const size_t gate_bytes = RoundUp(result.get_size(), device::kAlignment);
  const size_t half_bytes = StrideOf(gate.weight);
  BoundKernel kernel;
  kernel.workspace_bytes =
      gate_bytes + std::max(gate.scratchpad.get_size(), linear.scratchpad.get_size());
  kernel.packing = FormatOf(gate, a.operand(1).dtype);
  kernel.run = [=, x = a.operand(0), bias = a.operand(2), y = a.result(), gate = gate.primitive,
                linear = linear.primitive](const Frame& f) {
    const auto* weights = static_cast<const char*>(f.packed);
    const float* biases = bias.present() ? AddressOf<const float>(bias, f) : nullptr;
    const float* gate_biases = bias.present() ? biases + s.out : nullptr;
    const size_t count = bias.present() ? 6 : 5;
    const void* scratch = f.workspace + gate_bytes;
    const std::array<const void*, 6> first = {BytesOf(x, f), weights + half_bytes, f.workspace,
                                              scratch,       f.workspace,          gate_biases};
    const std::array<const void*, 6> second = {BytesOf(x, f), weights,     BytesOf(y, f),
                                               scratch,       f.workspace, biases};
    gate->Run({first.data(), count});
    linear->Run({second.data(), count});
    return absl::OkStatus();
  };
  return kernel;
}

}  // namespace latentd::backends::cpu
