#include "core/backends/reference/operators.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/div.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/round.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/std.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/upsample_nearest2d.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/backends/reference/interpret.h"
#include "core/backends/reference/tensor_view.h"

namespace latentd::backends::reference {
namespace {

using graph::Layout;
using graph::Node;
using graph::Op;
using Operands = absl::Span<const at::Tensor>;

template <typename T>
const T& Attributes(const Node& node) {
  return std::get<T>(node.attributes);
}

// The operand at `index`, or an undefined tensor, which ATen takes for "none".
at::Tensor Optional(Operands operands, size_t index) {
  return index < operands.size() ? operands[index] : at::Tensor();
}

// ATen computes images in NCHW whatever the node's layout.
at::Tensor ToNchw(const at::Tensor& x, Layout layout) {
  return layout == Layout::kNhwc ? x.permute({0, 3, 1, 2}) : x;
}
at::Tensor FromNchw(const at::Tensor& x, Layout layout) {
  return layout == Layout::kNhwc ? x.permute({0, 2, 3, 1}) : x;
}

at::Tensor Constant(const Node& node, Operands) {
  auto& values =
      const_cast<std::vector<float>&>(Attributes<graph::ConstantAttributes>(node).values);
  return at::from_blob(values.data(), node.shape.dims(), at::TensorOptions().dtype(at::kFloat))
      .to(ToScalarType(node.dtype), /*non_blocking=*/false, /*copy=*/true);
}

at::Tensor Conv2d(const Node& node, Operands x) {
  const auto& a = Attributes<graph::Conv2dAttributes>(node);
  const at::Tensor padded = at::constant_pad_nd(
      ToNchw(x[0], a.layout), {a.padding.left, a.padding.right, a.padding.top, a.padding.bottom});
  return FromNchw(at::conv2d(padded, x[1], Optional(x, 2), a.stride), a.layout);
}

at::Tensor Linear(const Node&, Operands x) { return at::linear(x[0], x[1], Optional(x, 2)); }

at::Tensor Matmul(const Node&, Operands x) { return at::matmul(x[0], x[1]); }

// [n, tokens, heads * size] -> [n, heads, tokens, size]
at::Tensor SplitHeads(const at::Tensor& x, int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

at::Tensor Attention(const Node& node, Operands x) {
  const auto& a = Attributes<graph::AttentionAttributes>(node);
  const at::Tensor heads = at::scaled_dot_product_attention(
      SplitHeads(x[0], a.heads), SplitHeads(x[1], a.heads), SplitHeads(x[2], a.heads),
      /*attn_mask=*/{}, /*dropout_p=*/0.0, a.causal, a.scale);
  return heads.transpose(1, 2).reshape(node.shape.dims());
}

at::Tensor LowRank(const Node& node, Operands x) {
  const at::Tensor &down = x[2], &up = x[3], &scale = x[5];
  at::Tensor result = x[0].clone();
  for (int64_t row = 0; row < node.shape[0]; ++row) {
    const int64_t slot = x[4].const_data_ptr<int64_t>()[row];
    const float* scales = scale.const_data_ptr<float>() + row * scale.size(1);
    const bool scaled =
        std::any_of(scales, scales + scale.size(1), [](float one) { return one != 0; });
    if (slot < 0 || slot >= down.size(0) || !scaled) continue;
    const at::Tensor hidden =
        at::mul(at::linear(x[1].select(0, row), down.select(0, slot)), scale.select(0, row));
    result.select(0, row).add_(at::linear(hidden, up.select(0, slot)));
  }
  return result;
}

at::Tensor GroupNorm(const Node& node, Operands x) {
  const auto& a = Attributes<graph::GroupNormAttributes>(node);
  return FromNchw(
      at::group_norm(ToNchw(x[0], a.layout).contiguous(), a.groups, x[1], x[2], a.epsilon),
      a.layout);
}

at::Tensor LayerNorm(const Node& node, Operands x) {
  return at::layer_norm(x[0], {x[0].size(-1)}, x[1], x[2],
                        Attributes<graph::LayerNormAttributes>(node).epsilon);
}

at::Tensor Softmax(const Node&, Operands x) { return at::softmax(x[0], -1); }

at::Tensor RowStd(const Node& node, Operands x) {
  return at::std(x[0].flatten(1), /*dim=*/at::OptionalIntArrayRef({1}), /*correction=*/1)
      .reshape(node.shape.dims());
}

at::Tensor IsFinite(const Node& node, Operands x) {
  return at::isfinite(x[0].reshape({node.shape[0], -1})).all(/*dim=*/1);
}

at::Tensor RowNorm(const Node& node, Operands x) {
  const double order = Attributes<graph::RowNormAttributes>(node).euclidean
                           ? 2
                           : std::numeric_limits<double>::infinity();
  const at::Tensor rows = x[0].reshape({node.shape[0], -1});
  return at::linalg_vector_norm(rows, order, /*dim=*/at::OptionalIntArrayRef({1}))
      .reshape(node.shape.dims());
}

at::Tensor Silu(const Node&, Operands x) { return at::silu(x[0]); }
at::Tensor Gelu(const Node&, Operands x) { return at::gelu(x[0], "none"); }
at::Tensor QuickGelu(const Node&, Operands x) { return x[0] * at::sigmoid(x[0] * 1.702); }
at::Tensor Relu(const Node&, Operands x) { return at::relu(x[0]); }
at::Tensor Tanh(const Node&, Operands x) { return at::tanh(x[0]); }

at::Tensor Exp(const Node&, Operands x) { return at::exp(x[0]); }

at::Tensor Clamp(const Node& node, Operands x) {
  const auto& a = Attributes<graph::ClampAttributes>(node);
  return at::clamp(x[0], at::Scalar(a.min), at::Scalar(a.max));
}

at::Tensor Geglu(const Node&, Operands x) {
  const std::vector<at::Tensor> halves = x[0].chunk(2, -1);
  return halves[0] * at::gelu(halves[1], "none");
}

at::Tensor Cast(const Node& node, Operands x) {
  return x[0].to(ToScalarType(Attributes<graph::CastAttributes>(node).to));
}

at::Tensor ToPixels(const Node&, Operands x) {
  const at::Tensor unit = at::nan_to_num(x[0].to(at::kFloat) / 2 + 0.5, /*nan=*/0.0);
  return at::round(at::clamp(unit, 0, 1) * 255);
}

at::Tensor Increment(const Node&, Operands x) { return at::add(x[0], 1); }

at::Tensor Add(const Node&, Operands x) { return at::add(x[0], x[1]); }
at::Tensor Sub(const Node&, Operands x) { return at::sub(x[0], x[1]); }
at::Tensor Mul(const Node&, Operands x) { return at::mul(x[0], x[1]); }
at::Tensor Div(const Node&, Operands x) { return at::div(x[0], x[1]); }

float F8ScaleOf(float x) {
  constexpr float kMost = 448, kLeast = 0x1p-100f;
  if (x == 0 || !std::isfinite(x)) return 1;
  int exponent = 0;
  const float mantissa = std::frexp(x / kMost, &exponent);  // 0.5 to 1
  return std::max(kLeast, std::ldexp(1.0f, mantissa == 0.5f ? exponent - 1 : exponent));
}

at::Tensor F8Scale(const Node&, Operands x) {
  at::Tensor scales = x[0].clone();
  auto* const values = scales.mutable_data_ptr<float>();
  std::transform(values, values + scales.numel(), values, F8ScaleOf);
  return scales;
}

// ATen's own conversion has no saturation: what is too large for it becomes NaN, as an infinity
// does here.
at::Tensor Quantize(const Node&, Operands x) {
  at::Tensor scaled = at::div(x[0], x[1]);
  const at::Tensor infinite = at::isinf(x[0]);
  scaled.clamp_(-448, 448);
  return scaled.masked_fill_(infinite, std::numeric_limits<double>::quiet_NaN());
}

at::Tensor F8Linear(const Node&, Operands x) {
  const at::Tensor sums = at::linear(x[0].to(at::kFloat), x[1].to(at::kFloat)).mul_(x[2]);
  return x.size() > 3 ? at::add(sums, x[3]) : sums;
}

at::Tensor F8Conv2d(const Node& node, Operands x) {
  const auto& a = Attributes<graph::F8Conv2dAttributes>(node);
  const at::Tensor padded =
      at::constant_pad_nd(ToNchw(x[0].to(at::kFloat), a.layout),
                          {a.padding.left, a.padding.right, a.padding.top, a.padding.bottom});
  const at::Tensor sums = at::conv2d(padded, x[1].to(at::kFloat), {}, a.stride).mul_(x[2]);
  return FromNchw(x.size() > 3 ? at::add(sums, x[3].reshape({-1, 1, 1})) : sums, a.layout);
}

at::Tensor Concat(const Node& node, Operands x) {
  return at::cat(at::TensorList(x.data(), x.size()),
                 Attributes<graph::ConcatAttributes>(node).axis);
}

at::Tensor Slice(const Node& node, Operands x) {
  const auto& a = Attributes<graph::SliceAttributes>(node);
  return x[0].slice(a.axis, a.begin, a.end);
}

at::Tensor Reshape(const Node& node, Operands x) { return x[0].reshape(node.shape.dims()); }

at::Tensor Permute(const Node& node, Operands x) {
  return x[0].permute(Attributes<graph::PermuteAttributes>(node).order);
}

at::Tensor UpsampleNearest(const Node& node, Operands x) {
  const auto& a = Attributes<graph::UpsampleAttributes>(node);
  return FromNchw(at::upsample_nearest2d(ToNchw(x[0], a.layout).contiguous(), {a.height, a.width}),
                  a.layout);
}

// Within a table of so many entries.
at::Tensor Clamped(const at::Tensor& ids, int64_t entries) {
  return at::clamp(ids, 0, entries - 1);
}

at::Tensor Embedding(const Node&, Operands x) {
  return at::embedding(x[0], Clamped(x[1], x[0].size(0)));
}

at::Tensor Select(const Node&, Operands x) {
  const int64_t rows = x[0].size(0), entries = x[0].size(1);
  const at::Tensor first = at::arange(rows, at::TensorOptions().dtype(at::kLong)) * entries;
  return at::embedding(x[0].flatten(0, 1), first + Clamped(x[1], entries));
}

// cos and sin of t * 10000^(-i / (dim/2 - shift)) for i < dim/2; an odd dim ends in a zero.
at::Tensor TimestepEmbedding(const Node& node, Operands x) {
  const auto& a = Attributes<graph::TimestepEmbeddingAttributes>(node);
  const int64_t half = a.dim / 2;
  const at::Tensor exponents = at::arange(half, at::TensorOptions().dtype(at::kFloat)) *
                               (-std::log(10000.0) / (half - a.downscale_freq_shift));
  const at::Tensor angles = x[0].to(at::kFloat).unsqueeze(1) * at::exp(exponents).unsqueeze(0);
  const at::Tensor first = a.flip_sin_to_cos ? at::cos(angles) : at::sin(angles);
  const at::Tensor second = a.flip_sin_to_cos ? at::sin(angles) : at::cos(angles);
  return at::constant_pad_nd(at::cat({first, second}, -1), {0, a.dim % 2});
}

// The next state of one row of so many elements.
void StepRow(const float* line, const float* state, const float* output, const float* noise,
             int64_t elements, float* next) {
  using Line = graph::SchedulerLine;
  const float* matrix = line + Line::kMatrix;
  for (int64_t i = 0; i < elements; ++i) {
    const float drawn = line[Line::kDrawsNoise] != 0 ? noise[i] : 0;
    const float combined[Line::kCombined] = {
        state[i], state[elements + i], state[2 * elements + i], state[3 * elements + i], output[i],
        drawn};
    for (int64_t row = 0; row < Line::kStates; ++row) {
      float sum = 0;
      for (int64_t k = 0; k < Line::kCombined; ++k) {
        sum = std::fma(matrix[row * Line::kCombined + k], combined[k], sum);
      }
      next[row * elements + i] = sum;
    }
  }
}

at::Tensor SchedulerStep(const Node& node, Operands x) {
  at::Tensor next = at::empty_like(x[0]);
  const int64_t rows = node.shape[0], elements = node.shape[2];
  for (int64_t row = 0; row < rows; ++row) {
    StepRow(x[3].const_data_ptr<float>() + row * graph::SchedulerLine::kElements,
            x[0].const_data_ptr<float>() + row * graph::SchedulerLine::kStates * elements,
            x[1].const_data_ptr<float>() + row * elements,
            x[2].const_data_ptr<float>() + row * elements, elements,
            next.mutable_data_ptr<float>() + row * graph::SchedulerLine::kStates * elements);
  }
  return next;
}

at::Tensor Fused(const Node& node, Operands x) {
  const graph::Graph& body = *Attributes<graph::FusedAttributes>(node).body;
  return Interpret(body, BindInputs(body, x)).front();
}

constexpr std::array kOperators = {
    Operator{Op::kInput, nullptr},
    Operator{Op::kWeight, nullptr},
    Operator{Op::kConstant, Constant},
    Operator{Op::kConv2d, Conv2d},
    Operator{Op::kLinear, Linear},
    Operator{Op::kMatmul, Matmul},
    Operator{Op::kAttention, Attention},
    Operator{Op::kLowRank, LowRank},
    Operator{Op::kGroupNorm, GroupNorm},
    Operator{Op::kLayerNorm, LayerNorm},
    Operator{Op::kSoftmax, Softmax},
    Operator{Op::kRowStd, RowStd},
    Operator{Op::kIsFinite, IsFinite},
    Operator{Op::kRowNorm, RowNorm},
    Operator{Op::kSilu, Silu},
    Operator{Op::kGelu, Gelu},
    Operator{Op::kQuickGelu, QuickGelu},
    Operator{Op::kRelu, Relu},
    Operator{Op::kTanh, Tanh},
    Operator{Op::kExp, Exp},
    Operator{Op::kClamp, Clamp},
    Operator{Op::kGeglu, Geglu},
    Operator{Op::kCast, Cast},
    Operator{Op::kToPixels, ToPixels},
    Operator{Op::kIncrement, Increment},
    Operator{Op::kAdd, Add},
    Operator{Op::kSub, Sub},
    Operator{Op::kMul, Mul},
    Operator{Op::kDiv, Div},
    Operator{Op::kF8Scale, F8Scale},
    Operator{Op::kQuantize, Quantize},
    Operator{Op::kF8Linear, F8Linear},
    Operator{Op::kF8Conv2d, F8Conv2d},
    Operator{Op::kConcat, Concat},
    Operator{Op::kSlice, Slice},
    Operator{Op::kReshape, Reshape},
    Operator{Op::kPermute, Permute},
    Operator{Op::kUpsampleNearest, UpsampleNearest},
    Operator{Op::kEmbedding, Embedding},
    Operator{Op::kSelect, Select},
    Operator{Op::kTimestepEmbedding, TimestepEmbedding},
    Operator{Op::kSchedulerStep, SchedulerStep},
    Operator{Op::kFused, Fused},
};

constexpr bool EveryOpHasItsRow() {
  if (kOperators.size() != graph::kOps) return false;
  for (size_t i = 0; i < kOperators.size(); ++i) {
    const Op op = kOperators[i].op;
    if (op != static_cast<Op>(i)) return false;
    const bool bound = op == Op::kInput || op == Op::kWeight;
    if (bound != (kOperators[i].compute == nullptr)) return false;
  }
  return true;
}
static_assert(EveryOpHasItsRow());

}  // namespace

const Operator& OperatorOf(Op op) { return kOperators[static_cast<size_t>(op)]; }

}  // namespace latentd::backends::reference
