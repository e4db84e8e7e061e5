// A linear layer and the GEGLU that alone reads it, as two products of half the width: the gate
// through gelu into the workspace, then the other half times the gate.
#include <array>

#include "core/backends/cpu/binders.h"
#include "core/backends/cpu/onednn.h"

namespace latentd::backends::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

constexpr int kGateArgument = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;

struct Sizes {
  int64_t rows, in, out;  // out: of one half
  device::DType dtype;    // of all but the bias
};

size_t RoundUp(size_t bytes) {
  return (bytes + device::kAlignment - 1) / device::kAlignment * device::kAlignment;
}

struct Half {
  dnnl::matmul::primitive_desc desc;
  std::shared_ptr<Primitive> primitive;
};

// x times one half of the weight, then `post_ops`.
Half MakeHalf(const Sizes& s, bool has_bias, const dnnl::post_ops& post_ops) {
  const memory::desc bias = has_bias ? Float32({1, s.out}, Tag::ab) : memory::desc();
  const memory::desc result = Layout(s.dtype, {s.rows, s.out}, Tag::ab);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(post_ops);
  dnnl::matmul::primitive_desc desc(
      dnnl::matmul::desc(Layout(s.dtype, {s.rows, s.in}, Tag::ab),
                         Layout(s.dtype, {s.in, s.out}, Tag::any), bias, result),
      attributes, Engine());
  SkipUnsound(desc);
  std::vector<std::pair<int, memory::desc>> arguments = {
      {DNNL_ARG_SRC, desc.src_desc()},
      {DNNL_ARG_WEIGHTS, desc.weights_desc()},
      {DNNL_ARG_DST, desc.dst_desc()},
      {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()},
      // Read only where a post-op names it.
      {kGateArgument, result},
  };
  if (has_bias) arguments.emplace_back(DNNL_ARG_BIAS, bias);
  return {desc, std::make_shared<Primitive>(dnnl::matmul(desc), arguments)};
}

// Both halves of [2 * out, in], each in the layout of the products, one behind the other.
weights::Packing PackHalves(const Sizes& s, device::DType stored, const memory::desc& wanted) {
  const memory::desc plain = Layout(s.dtype, {s.in, s.out}, Tag::ba);
  const weights::Packing half = PackingFor("matmul", stored, plain, wanted);
  const size_t stride = RoundUp(wanted.get_size());
  const auto pack = [=](const device::Buffer& weight) -> absl::StatusOr<device::Buffer> {
    return CatchOneDnn("packing a weight", [&]() -> absl::StatusOr<device::Buffer> {
      device::Buffer packed =
          device::Buffer::Allocate(device::DType::kU8, {static_cast<int64_t>(2 * stride)});
      const device::Buffer both = AsPlain(weight, plain);
      for (int i = 0; i < 2; ++i) {
        const auto* from = static_cast<const char*>(both.data()) + i * both.bytes() / 2;
        Reorder(plain, from, wanted, static_cast<char*>(packed.data()) + i * stride);
      }
      return packed;
    });
  };
  return {absl::StrCat("halves ", half.form), pack, 2 * stride};
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

absl::StatusOr<BoundKernel> BindLinearGeglu(const BinderArguments& a) {
  const graph::Shape& w = a.operand(1).shape;
  const Sizes s = {a.operand(0).shape.elements() / w[1], w[1], w[0] / 2, a.operand(0).dtype};
  const memory::desc result = Layout(s.dtype, {s.rows, s.out}, Tag::ab);
  const View& bias = a.operand(2);
  const Half gate = MakeHalf(s, bias.present(), Gelu());
  const Half linear = MakeHalf(s, bias.present(), Times(result));
  if (gate.desc.weights_desc() != linear.desc.weights_desc()) {
    return absl::InternalError("the halves of a GEGLU want their weights packed differently");
  }
  const size_t gate_bytes = RoundUp(result.get_size());
  const size_t half_bytes = RoundUp(gate.desc.weights_desc().get_size());
  BoundKernel kernel;
  kernel.workspace_bytes = gate_bytes + std::max(gate.desc.scratchpad_desc().get_size(),
                                                 linear.desc.scratchpad_desc().get_size());
  kernel.packing = PackHalves(s, a.operand(1).dtype, gate.desc.weights_desc());
  kernel.run = [=, x = a.operand(0), bias = a.operand(2), y = a.result(), gate = gate.primitive,
                linear = linear.primitive](const Frame& f) {
    const auto* weights = static_cast<const char*>(f.packed);
    const float* biases = bias.present() ? AddressOf<const float>(bias, f) : nullptr;
    const size_t count = bias.present() ? 6 : 5;
    const void* scratch = f.workspace + gate_bytes;
    const std::array<const void*, 6> first = {BytesOf(x, f), weights + half_bytes, f.workspace,
                                              scratch,       f.workspace,          biases + s.out};
    const std::array<const void*, 6> second = {BytesOf(x, f), weights,     BytesOf(y, f),
                                               scratch,       f.workspace, biases};
    gate->Run({first.data(), count});
    linear->Run({second.data(), count});
    return absl::OkStatus();
  };
  return kernel;
}

}  // namespace latentd::backends::cpu
