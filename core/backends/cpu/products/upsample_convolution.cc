// An upsampling to twice the size and the 3x3 convolution that alone reads it, as four 2x2
// convolutions of the small image, one for each of the four pixels (phases) that a small pixel
// becomes. The three taps of a side fall onto two small pixels: 4/9 of the multiplications. In f32,
// also where the weight is not.
#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/backends/cpu/binding/binders.h"
#include "core/backends/cpu/binding/element.h"
#include "core/backends/cpu/products/packing.h"
#include "core/base/alignment.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

constexpr int kPhases = 4;  // phase 2 * p + q: p of the height, q of the width

// Taps [begin, end) of a side that fall onto each of the two small pixels: phase 0 sees the pixel
// before its own and its own, phase 1 its own and the next.
struct Taps {
  int begin, end;
};
constexpr Taps kTaps[2][2] = {{{0, 1}, {1, 3}}, {{0, 2}, {2, 3}}};

// The weight of one phase, [out, in, 2, 2], from [out, in, 3, 3], both f32.
device::Buffer PhaseWeight(const device::ConstBuffer& weight, int phase) {
  const graph::Shape& shape = weight.shape();
  device::Buffer sums = device::Buffer::Allocate(device::DType::kF32, {shape[0], shape[1], 2, 2});
  const float* w = weight.as<float>().data();
  float* sum = sums.as<float>().data();
  for (int64_t i = 0; i < shape[0] * shape[1]; ++i, w += 9) {
    for (const Taps& rows : kTaps[phase / 2]) {
      for (const Taps& columns : kTaps[phase % 2]) {
        *sum = 0;
        for (int y = rows.begin; y < rows.end; ++y) {
          for (int x = columns.begin; x < columns.end; ++x) *sum += w[3 * y + x];
        }
        ++sum;
      }
    }
  }
  return sums;
}

// Bytes of one phase of the packed weight.
size_t StrideOf(const memory::desc& phase) { return RoundUp(phase.get_size(), device::kAlignment); }

struct Phase {
  memory::desc weight;
  size_t weight_begin = 0;  // in the packed weight
  size_t scratch_bytes = 0;
  std::shared_ptr<Primitive> primitive;
};

Phase MakePhase(const BinderArguments& a, int phase) {
  const graph::Shape& x = a.operand(0).shape;
  const graph::Shape& w = a.operand(1).shape;
  const auto image = [&](int64_t channels) {
    return Float32({x[0], channels, x[1], x[2]}, Tag::nhwc);
  };
  const memory::desc bias = a.operand(2).present() ? Float32({w[0]}, Tag::a) : memory::desc();
  const int p = phase / 2, q = phase % 2;
  dnnl::convolution_forward::primitive_desc desc(
      dnnl::convolution_forward::desc(
          dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, image(w[1]),
          Float32({w[0], w[1], 2, 2}, Tag::any), bias, image(w[0]), {1, 1}, {1 - p, 1 - q}, {p, q}),
      Attributes(/*residual=*/nullptr, graph::Op::kInput), Engine());
  SkipUnsound(desc);
  std::vector<std::pair<int, memory::desc>> arguments = {
      {DNNL_ARG_SRC, desc.src_desc()},
      {DNNL_ARG_WEIGHTS, desc.weights_desc()},
      {DNNL_ARG_DST, desc.dst_desc()},
      {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()},
  };
  if (a.operand(2).present()) arguments.emplace_back(DNNL_ARG_BIAS, bias);
  return {desc.weights_desc(), 0, desc.scratchpad_desc().get_size(),
          std::make_shared<Primitive>(dnnl::convolution_forward(desc), arguments)};
}

std::array<Phase, kPhases> MakePhases(const BinderArguments& a) {
  std::array<Phase, kPhases> phases;
  size_t begin = 0;
  for (int i = 0; i < kPhases; ++i) {
    phases[i] = MakePhase(a, i);
    phases[i].weight_begin = begin;
    begin += StrideOf(phases[i].weight);
  }
  return phases;
}

// The weights of all phases, each in its convolution's layout, one behind the other.
weights::WeightFormat FormatOf(const View& weight, const std::array<Phase, kPhases>& phases) {
  weights::WeightFormat format;
  const char* separator = "";
  format.form = std::string(kPhasesForm);
  for (const Phase& phase : phases) {
    absl::StrAppend(&format.form, std::exchange(separator, " "),
                    LayoutForm("convolution", phase.weight));
  }
  format.bytes = phases.back().weight_begin + StrideOf(phases.back().weight);
  format.scratch_bytes = weight.shape[0] * weight.shape[1] * 4 * sizeof(float) +
                         Float32CopyBytes(weight.dtype, weight.shape.elements());
  return format;
}

}  // namespace

absl::Status PackPhases(absl::string_view layouts, const device::ConstBuffer& plain,
                        absl::Span<char> packed) {
  ASSIGN_OR_RETURN(const std::vector<Reordering> phases, ReorderingsOf(layouts, kPhases));
  const memory::dims dims = phases[0].plain.dims();
  const device::ConstBuffer wide = InFloat32(plain);
  size_t bytes = 0;
  for (const Reordering& phase : phases) bytes += StrideOf(phase.packed);
  RETURN_IF_ERROR(CheckSizes(layouts, wide, dims[0] * dims[1] * 9 * sizeof(float), packed, bytes));
  char* to = packed.data();
  for (int i = 0; i < kPhases; ++i) {
    phases[i].Run(PhaseWeight(wide.Reshaped({dims[0], dims[1], 3, 3}), i).data(), to);
    to += StrideOf(phases[i].packed);
  }
  return absl::OkStatus();
}

absl::StatusOr<BoundKernel> BindUpsampleConvolution(const BinderArguments& a) {
  if (a.algorithm == Algorithm::kWinograd) return BindWinograd(a);
  const graph::Shape& x = a.operand(0).shape;
  const int64_t channels = a.operand(1).shape[0];
  const std::array<Phase, kPhases> phases = MakePhases(a);
  InterleaveArguments interleave = {};
  interleave.rows = x[0] * x[1];
  interleave.width = x[2];
  interleave.pixel_bytes = channels * device::SizeOf(a.result().dtype);
  const auto result_bytes =
      RoundUp<size_t>(x[0] * x[1] * x[2] * interleave.pixel_bytes, device::kAlignment);
  size_t scratch_bytes = 0;
  for (const Phase& phase : phases) scratch_bytes = std::max(scratch_bytes, phase.scratch_bytes);

  BoundKernel kernel;
  kernel.workspace_bytes = kPhases * result_bytes + scratch_bytes;
  kernel.packing = FormatOf(a.operand(1), phases);
  kernel.run = [=, x = a.operand(0), bias = a.operand(2), y = a.result(),
                run = a.machine.kernels->interleave](const Frame& f) mutable {
    for (int i = 0; i < kPhases; ++i) {
      char* result = f.workspace + i * result_bytes;
      const std::array<const void*, 5> addresses = {
          BytesOf(x, f), static_cast<const char*>(f.packed) + phases[i].weight_begin, result,
          f.workspace + kPhases * result_bytes,
          bias.present() ? AddressOf<const float>(bias, f) : nullptr};
      phases[i].primitive->Run({addresses.data(), bias.present() ? addresses.size() : 4});
      interleave.phases[i] = result;
    }
    interleave.y = BytesOf(y, f);
    run(interleave);
    return absl::OkStatus();
  };
  return kernel;
}

}  // namespace latentd::backends::cpu
