// Products of two computed matrices, on oneDNN.
#include <array>

#include "core/backends/cpu/binding/binders.h"
#include "core/backends/cpu/binding/onednn.h"
#include "core/base/alignment.h"

namespace latentd::backends::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

// [batch, m, k] times [batch, k, n]; leading dimensions are one batch.
struct Sizes {
  int64_t batch, m, k, n;
};

Sizes SizesOf(const BinderArguments& a) {
  const graph::Shape& left = a.operand(0).shape;
  const int64_t m = left[-2], k = left[-1];
  return {left.elements() / (m * k), m, k, a.operand(1).shape[-1]};
}

BoundKernel BindAsMatmul(const BinderArguments& a, const Sizes& s) {
  const auto layout = [&](const View& view, int64_t rows, int64_t columns) {
    return Layout(view.dtype, {s.batch, rows, columns}, Tag::abc);
  };
  dnnl::matmul::primitive_desc desc(
      dnnl::matmul::desc(layout(a.operand(0), s.m, s.k), layout(a.operand(1), s.k, s.n),
                         layout(a.result(), s.m, s.n)),
      Attributes(nullptr, graph::Op::kInput), Engine());
  SkipUnsound(desc);
  BoundKernel kernel;
  kernel.workspace_bytes = desc.scratchpad_desc().get_size();
  auto primitive = std::make_shared<Primitive>(
      dnnl::matmul(desc),
      std::vector<std::pair<int, memory::desc>>{{DNNL_ARG_SRC, desc.src_desc()},
                                                {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                                                {DNNL_ARG_DST, desc.dst_desc()},
                                                {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()}});
  kernel.run = [left = a.operand(0), right = a.operand(1), y = a.result(),
                primitive](const Frame& f) {
    const std::array<const void*, 4> addresses = {BytesOf(left, f), BytesOf(right, f),
                                                  BytesOf(y, f), f.workspace};
    primitive->Run(addresses);
    return absl::OkStatus();
  };
  return kernel;
}

// A convolution of one pixel over an image of one column, for each of the batch; its weight is the
// right matrix, brought into the convolution's layout.
dnnl::convolution_forward::primitive_desc ConvolutionOf(const BinderArguments& a, const Sizes& s) {
  const dnnl::convolution_forward::desc desc(
      dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
      Layout(a.operand(0).dtype, {1, s.k, s.m, 1}, Tag::nhwc),
      Layout(a.operand(1).dtype, {s.n, s.k, 1, 1}, Tag::any),
      Layout(a.result().dtype, {1, s.n, s.m, 1}, Tag::nhwc), {1, 1}, {0, 0}, {0, 0});
  dnnl::convolution_forward::primitive_desc chosen(desc, Attributes(nullptr, graph::Op::kInput),
                                                   Engine());
  SkipUnsound(chosen);
  return chosen;
}

BoundKernel BindAsConvolutions(const BinderArguments& a, const Sizes& s) {
  const auto chosen = ConvolutionOf(a, s);
  const memory::desc rows = Layout(a.operand(1).dtype, {s.n, s.k, 1, 1}, Tag::hwio);
  const memory::desc weight = chosen.weights_desc();
  auto pack = std::make_shared<Primitive>(
      dnnl::reorder(dnnl::reorder::primitive_desc(Engine(), rows, Engine(), weight)),
      std::vector<std::pair<int, memory::desc>>{{DNNL_ARG_FROM, rows}, {DNNL_ARG_TO, weight}});
  auto convolve = std::make_shared<Primitive>(
      dnnl::convolution_forward(chosen),
      std::vector<std::pair<int, memory::desc>>{{DNNL_ARG_SRC, chosen.src_desc()},
                                                {DNNL_ARG_WEIGHTS, weight},
                                                {DNNL_ARG_DST, chosen.dst_desc()},
                                                {DNNL_ARG_SCRATCHPAD, chosen.scratchpad_desc()}});
  const size_t packed_bytes = RoundUp(weight.get_size(), device::kAlignment);
  BoundKernel kernel;
  kernel.workspace_bytes = packed_bytes + chosen.scratchpad_desc().get_size();
  kernel.run = [left = a.operand(0), right = a.operand(1), y = a.result(), s, packed_bytes, pack,
                convolve,
                bytes = std::array{chosen.src_desc().get_size(), rows.get_size(),
                                   chosen.dst_desc().get_size()}](const Frame& f) {
    for (int64_t i = 0; i < s.batch; ++i) {
      const std::array<const void*, 2> packing = {BytesOf(right, f) + i * bytes[1], f.workspace};
      pack->Run(packing);
      const std::array<const void*, 4> product = {BytesOf(left, f) + i * bytes[0], f.workspace,
                                                  BytesOf(y, f) + i * bytes[2],
                                                  f.workspace + packed_bytes};
      convolve->Run(product);
    }
    return absl::OkStatus();
  };
  return kernel;
}

}  // namespace

absl::StatusOr<BoundKernel> BindMatmul(const BinderArguments& a) {
  return a.algorithm == Algorithm::kAsConvolution ? BindAsConvolutions(a, SizesOf(a))
                                                  : BindAsMatmul(a, SizesOf(a));
}

}  // namespace latentd::backends::cpu
