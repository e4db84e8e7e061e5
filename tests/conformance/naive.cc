#include "tests/conformance/naive.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdlib>

#include "tests/conformance/arrays.h"
#include "tests/conformance/naive_sampling.h"

namespace latentd::testing {
namespace {

using device::Shape;
using graph::Layout;
using graph::Node;
using graph::Op;
using Operands = std::vector<const Array*>;

template <typename T>
const T& Attributes(const Node& node) {
  return std::get<T>(node.attributes);
}

// The index of pixel (n, c, y, x).
Index Pixel(Layout layout, int64_t n, int64_t c, int64_t y, int64_t x) {
  return layout == Layout::kNchw ? Index{n, c, y, x} : Index{n, y, x, c};
}

struct PixelIndex {
  int64_t n, c, y, x;
};
PixelIndex PixelOf(Layout layout, const Index& i) {
  if (layout == Layout::kNchw) return {i[0], i[1], i[2], i[3]};
  return {i[0], i[3], i[1], i[2]};
}

// Its value, or zero outside of the picture.
double PixelOrZero(const Array& image, Layout layout, const PixelIndex& p) {
  const int64_t height = image.shape[layout == Layout::kNchw ? 2 : 1];
  const int64_t width = image.shape[layout == Layout::kNchw ? 3 : 2];
  if (p.y < 0 || p.x < 0 || p.y >= height || p.x >= width) return 0;
  return At(image, Pixel(layout, p.n, p.c, p.y, p.x));
}

// The sum over the taps of a convolution's result, without bias.
template <typename ConvolutionAttributes>
double SumOfTaps(const ConvolutionAttributes& a, const PixelIndex& p, const Operands& x) {
  const Shape& kernel = x[1]->shape;
  double sum = 0;
  ForEachIndex(Shape{kernel[1], kernel[2], kernel[3]}, [&](const Index& k, int64_t) {
    const PixelIndex source{p.n, k[0], p.y * a.stride + k[1] - a.padding.top,
                            p.x * a.stride + k[2] - a.padding.left};
    sum += PixelOrZero(*x[0], a.layout, source) * At(*x[1], {p.c, k[0], k[1], k[2]});
  });
  return sum;
}

Array Conv2d(const Node& node, const Operands& x) {
  const auto& a = Attributes<graph::Conv2dAttributes>(node);
  return Fill(node.shape, [&](const Index& i) {
    const PixelIndex p = PixelOf(a.layout, i);
    return SumOfTaps(a, p, x) + (x.size() > 2 ? x[2]->values[p.c] : 0);
  });
}

Array Linear(const Node& node, const Operands& x) {
  const int64_t in = x[1]->shape[1];
  return Fill(node.shape, [&](const Index& i) {
    double sum = x.size() > 2 ? x[2]->values[i.back()] : 0;
    Index source = i;
    for (int64_t k = 0; k < in; ++k) {
      source.back() = k;
      sum += At(*x[0], source) * At(*x[1], {i.back(), k});
    }
    return sum;
  });
}

Array Matmul(const Node& node, const Operands& x) {
  return Fill(node.shape, [&](const Index& i) {
    Index a = i, b = i;
    double sum = 0;
    for (int64_t k = 0; k < x[0]->shape[-1]; ++k) {
      a.back() = k;
      b[b.size() - 2] = k;
      sum += At(*x[0], a) * At(*x[1], b);
    }
    return sum;
  });
}

// softmax(scores) in place.
void Normalise(std::vector<double>& scores) {
  const double top = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - top);
  for (double& score : scores) score /= sum;
}

Array Attention(const Node& node, const Operands& x) {
  const auto& a = Attributes<graph::AttentionAttributes>(node);
  const int64_t size = node.shape[2] / a.heads;
  std::vector<double> scores;  // scores of one query and head, by key
  return Fill(node.shape, [&](const Index& i) {
    if (const int64_t first = i[2]; first % size == 0) {
      scores.clear();
      for (int64_t key = 0; key < (a.causal ? i[1] + 1 : x[1]->shape[1]); ++key) {
        double dot = 0;
        for (int64_t c = first; c < first + size; ++c) {
          dot += At(*x[0], {i[0], i[1], c}) * At(*x[1], {i[0], key, c});
        }
        scores.push_back(a.scale * dot);
      }
      Normalise(scores);
    }
    double sum = 0;
    for (size_t key = 0; key < scores.size(); ++key) {
      sum += scores[key] * At(*x[2], {i[0], static_cast<int64_t>(key), i[2]});
    }
    return sum;
  });
}

Array LowRank(const Node& node, const Operands& x) {
  const Shape& down = x[2]->shape;
  std::vector<double> hidden(down[1]);  // the row's that is at hand
  const auto reduce = [&](Index source, int64_t slot) {
    std::fill(hidden.begin(), hidden.end(), 0);
    for (int64_t r = 0; r < down[1]; ++r) {
      for (int64_t k = 0; k < down[2]; ++k) {
        source.back() = k;
        hidden[r] += At(*x[1], source) * At(*x[2], {slot, r, k});
      }
    }
  };
  return Fill(node.shape, [&](const Index& i) {
    const double slot = x[4]->values[i[0]];
    double sum = At(*x[0], i);
    if (slot < 0 || slot >= static_cast<double>(down[0])) return sum;
    const auto s = static_cast<int64_t>(slot);
    if (i.back() == 0) reduce(i, s);
    for (int64_t r = 0; r < down[1]; ++r) {
      sum += hidden[r] * At(*x[5], {i[0], r}) * At(*x[3], {s, i.back(), r});
    }
    return sum;
  });
}

struct Moments {
  double mean = 0, sum_of_squares = 0;  // squares of the distances from the mean
};
Moments MomentsOf(const std::vector<double>& values) {
  Moments moments;
  for (double value : values) moments.mean += value / static_cast<double>(values.size());
  for (double value : values) moments.sum_of_squares += std::pow(value - moments.mean, 2);
  return moments;
}

double Standardise(double value, const Moments& group, double size, double epsilon) {
  return (value - group.mean) / std::sqrt(group.sum_of_squares / size + epsilon);
}

Array GroupNorm(const Node& node, const Operands& x) {
  const auto& a = Attributes<graph::GroupNormAttributes>(node);
  const int64_t size = x[1]->shape[0] / a.groups;  // channels of a group
  std::vector<std::vector<double>> groups(node.shape[0] * a.groups);
  const auto group_of = [&](const PixelIndex& p) { return p.n * a.groups + p.c / size; };
  ForEachIndex(node.shape, [&](const Index& i, int64_t flat) {
    groups[group_of(PixelOf(a.layout, i))].push_back(x[0]->values[flat]);
  });
  std::vector<Moments> moments;
  for (const std::vector<double>& group : groups) moments.push_back(MomentsOf(group));
  const auto pixels = static_cast<double>(groups.front().size());
  return Fill(node.shape, [&](const Index& i) {
    const PixelIndex p = PixelOf(a.layout, i);
    return Standardise(At(*x[0], i), moments[group_of(p)], pixels, a.epsilon) * x[1]->values[p.c] +
           x[2]->values[p.c];
  });
}

// The last dimension at index i.
std::vector<double> LastDimension(const Array& x, Index i) {
  std::vector<double> values;
  for (i.back() = 0; i.back() < x.shape[-1]; ++i.back()) values.push_back(At(x, i));
  return values;
}

Array LayerNorm(const Node& node, const Operands& x) {
  const float epsilon = Attributes<graph::LayerNormAttributes>(node).epsilon;
  Moments row;
  return Fill(node.shape, [&](const Index& i) {
    if (i.back() == 0) row = MomentsOf(LastDimension(*x[0], i));
    return Standardise(At(*x[0], i), row, static_cast<double>(node.shape[-1]), epsilon) *
               x[1]->values[i.back()] +
           x[2]->values[i.back()];
  });
}

Array Softmax(const Node& node, const Operands& x) {
  return Fill(node.shape, [&](const Index& i) {
    std::vector<double> scores = LastDimension(*x[0], i);
    Normalise(scores);
    return scores[i.back()];
  });
}

Array RowStd(const Node& node, const Operands& x) {
  const int64_t row = x[0]->shape.elements() / x[0]->shape[0];
  return Fill(node.shape, [&](const Index& i) {
    const auto begin = x[0]->values.begin() + i[0] * row;
    const Moments moments = MomentsOf(std::vector<double>(begin, begin + row));
    return std::sqrt(moments.sum_of_squares / static_cast<double>(row - 1));
  });
}

Array RowNorm(const Node& node, const Operands& x) {
  const int64_t row = x[0]->shape.elements() / x[0]->shape[0];
  const bool euclidean = Attributes<graph::RowNormAttributes>(node).euclidean;
  return Fill(node.shape, [&](const Index& i) {
    double largest = 0, squares = 0;
    for (int64_t k = 0; k < row; ++k) {
      const double value = x[0]->values[i[0] * row + k];
      largest = std::max(largest, std::abs(value));
      squares += value * value;
    }
    return euclidean ? std::sqrt(squares) : largest;
  });
}

double F8ScaleOf(double x) {
  if (x == 0) return 1;
  double scale = 1;
  while (x / scale > 448) scale *= 2;
  while (x / (scale / 2) <= 448 && scale > 0x1p-100) scale /= 2;
  return scale;
}

// The number of e4m3 that is nearest to x, found among all of them; of two the one whose last bit
// is 0.
double NearestE4M3(double x) {
  if (!std::isfinite(x)) return NAN;
  double best = 0;
  for (int code = 0; code < 0x7F; ++code) {
    const int exponent = std::max(code >> 3, 1), implied = code >> 3 != 0 ? 8 : 0;
    const double value = std::ldexp(implied + (code & 7), exponent - 10);
    const double gain = std::abs(best - std::abs(x)) - std::abs(value - std::abs(x));
    if (gain < 0 || (gain == 0 && code % 2 != 0)) continue;
    best = value;
  }
  return std::copysign(best, x);
}

Array Quantize(const Node& node, const Operands& x) {
  return Fill(node.shape,
              [&](const Index& i) { return NearestE4M3(At(*x[0], i) / x[1]->values[0]); });
}

Array F8Linear(const Node& node, const Operands& x) {
  const int64_t depth = x[1]->shape[1];
  return Fill(node.shape, [&](const Index& i) {
    double sum = 0;
    Index from = i;
    for (int64_t k = 0; k < depth; ++k) {
      from.back() = k;
      sum += At(*x[0], from) * At(*x[1], {i.back(), k});
    }
    return sum * x[2]->values[0] + (x.size() > 3 ? x[3]->values[i.back()] : 0);
  });
}

Array F8Conv2d(const Node& node, const Operands& x) {
  const auto& a = Attributes<graph::F8Conv2dAttributes>(node);
  return Fill(node.shape, [&](const Index& i) {
    const PixelIndex p = PixelOf(a.layout, i);
    return SumOfTaps(a, p, x) * x[2]->values[0] + (x.size() > 3 ? x[3]->values[p.c] : 0);
  });
}

double SiluOf(double x) { return x / (1 + std::exp(-x)); }
double GeluOf(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double QuickGeluOf(double x) { return x / (1 + std::exp(-1.702 * x)); }
double ReluOf(double x) { return std::max(x, 0.0); }
double TanhOf(double x) { return std::tanh(x); }
double ExpOf(double x) { return std::exp(x); }
double Same(double x) { return x; }

template <double (*function)(double)>
Array Map(const Node& node, const Operands& x) {
  return Fill(node.shape, [&](const Index& i) { return function(At(*x[0], i)); });
}

double Plus(double a, double b) { return a + b; }
double Minus(double a, double b) { return a - b; }
double Times(double a, double b) { return a * b; }
double Over(double a, double b) { return a / b; }

// The element of `x` that index `i` of a larger shape reads: trailing dimensions are aligned, those
// of size 1 repeat.
double Broadcast(const Array& x, const Index& i) {
  Index source(x.shape.rank());
  const size_t skipped = i.size() - source.size();
  for (int d = 0; d < x.shape.rank(); ++d) source[d] = x.shape[d] == 1 ? 0 : i[d + skipped];
  return At(x, source);
}

template <double (*function)(double, double)>
Array Combine(const Node& node, const Operands& x) {
  return Fill(node.shape,
              [&](const Index& i) { return function(Broadcast(*x[0], i), Broadcast(*x[1], i)); });
}

Array Geglu(const Node& node, const Operands& x) {
  return Fill(node.shape, [&](const Index& i) {
    Index gate = i;
    gate.back() += node.shape[-1];
    return At(*x[0], i) * GeluOf(At(*x[0], gate));
  });
}

Array Concat(const Node& node, const Operands& x) {
  const int64_t axis = Attributes<graph::ConcatAttributes>(node).axis;
  return Fill(node.shape, [&](const Index& i) {
    Index source = i;
    size_t part = 0;
    while (source[axis] >= x[part]->shape[axis]) source[axis] -= x[part++]->shape[axis];
    return At(*x[part], source);
  });
}

Array Slice(const Node& node, const Operands& x) {
  const auto& a = Attributes<graph::SliceAttributes>(node);
  return Fill(node.shape, [&](const Index& i) {
    Index source = i;
    source[a.axis] += a.begin;
    return At(*x[0], source);
  });
}

Array Reshape(const Node& node, const Operands& x) { return {node.shape, x[0]->values}; }

Array Permute(const Node& node, const Operands& x) {
  const auto& order = Attributes<graph::PermuteAttributes>(node).order;
  return Fill(node.shape, [&](const Index& i) {
    Index source(i.size());
    for (size_t d = 0; d < i.size(); ++d) source[order[d]] = i[d];
    return At(*x[0], source);
  });
}

Array UpsampleNearest(const Node& node, const Operands& x) {
  const auto& a = Attributes<graph::UpsampleAttributes>(node);
  const int64_t height = x[0]->shape[a.layout == Layout::kNchw ? 2 : 1];
  const int64_t width = x[0]->shape[a.layout == Layout::kNchw ? 3 : 2];
  return Fill(node.shape, [&](const Index& i) {
    const PixelIndex p = PixelOf(a.layout, i);
    return At(*x[0], Pixel(a.layout, p.n, p.c, p.y * height / a.height, p.x * width / a.width));
  });
}

Array Embedding(const Node& node, const Operands& x) {
  const int64_t size = x[0]->shape[1];
  const auto last = static_cast<double>(x[0]->shape[0] - 1);
  Array result{node.shape, {}};
  for (double id : x[1]->values) {
    const auto begin = static_cast<int64_t>(std::clamp(id, 0.0, last)) * size;
    for (int64_t c = 0; c < size; ++c) result.values.push_back(x[0]->values[begin + c]);
  }
  return result;
}

Array TimestepEmbedding(const Node& node, const Operands& x) {
  const auto& a = Attributes<graph::TimestepEmbeddingAttributes>(node);
  const int64_t half = a.dim / 2;
  return Fill(node.shape, [&](const Index& i) {
    if (i[1] == 2 * half) return 0.0;
    const double exponent = -(i[1] % half) / (half - static_cast<double>(a.downscale_freq_shift));
    const double angle = x[0]->values[i[0]] * std::pow(10000.0, exponent);
    return (i[1] < half) == a.flip_sin_to_cos ? std::cos(angle) : std::sin(angle);
  });
}

Array Constant(const Node& node, const Operands&) {
  const auto& values = Attributes<graph::ConstantAttributes>(node).values;
  return {node.shape, std::vector<double>(values.begin(), values.end())};
}

Array Fused(const Node& node, const Operands& x) {
  Arrays leaves;
  for (size_t i = 0; i < x.size(); ++i) leaves[std::to_string(i)] = *x[i];
  return EvaluateNaively(*Attributes<graph::FusedAttributes>(node).body, leaves).front();
}

using Function = Array (*)(const Node&, const Operands&);

Function FunctionOf(Op op) {
  static const auto* functions = new absl::flat_hash_map<Op, Function>{
      {Op::kConstant, Constant},
      {Op::kConv2d, Conv2d},
      {Op::kLinear, Linear},
      {Op::kMatmul, Matmul},
      {Op::kAttention, Attention},
      {Op::kLowRank, LowRank},
      {Op::kGroupNorm, GroupNorm},
      {Op::kLayerNorm, LayerNorm},
      {Op::kSoftmax, Softmax},
      {Op::kRowStd, RowStd},
      {Op::kIsFinite, IsFiniteNaively},
      {Op::kRowNorm, RowNorm},
      {Op::kSilu, Map<SiluOf>},
      {Op::kGelu, Map<GeluOf>},
      {Op::kQuickGelu, Map<QuickGeluOf>},
      {Op::kRelu, Map<ReluOf>},
      {Op::kTanh, Map<TanhOf>},
      {Op::kExp, Map<ExpOf>},
      {Op::kClamp, ClampNaively},
      {Op::kGeglu, Geglu},
      {Op::kCast, Map<Same>},
      {Op::kToPixels, ToPixelsNaively},
      {Op::kIncrement, IncrementNaively},
      {Op::kAdd, Combine<Plus>},
      {Op::kSub, Combine<Minus>},
      {Op::kMul, Combine<Times>},
      {Op::kDiv, Combine<Over>},
      {Op::kF8Scale, Map<F8ScaleOf>},
      {Op::kQuantize, Quantize},
      {Op::kF8Linear, F8Linear},
      {Op::kF8Conv2d, F8Conv2d},
      {Op::kConcat, Concat},
      {Op::kSlice, Slice},
      {Op::kReshape, Reshape},
      {Op::kPermute, Permute},
      {Op::kUpsampleNearest, UpsampleNearest},
      {Op::kEmbedding, Embedding},
      {Op::kSelect, SelectNaively},
      {Op::kTimestepEmbedding, TimestepEmbedding},
      {Op::kSchedulerStep, SchedulerStepNaively},
      {Op::kFused, Fused},
  };
  const auto found = functions->find(op);
  return found == functions->end() ? nullptr : found->second;
}

}  // namespace

bool KnownNaively(Op op) { return FunctionOf(op) != nullptr; }

Array ComputeNaively(const Node& node, const std::vector<const Array*>& operands) {
  return FunctionOf(node.op)(node, operands);
}

std::vector<Array> EvaluateNaively(const graph::Graph& graph, const Arrays& leaves) {
  std::vector<Array> values;
  values.reserve(graph.size());  // operands point into it
  for (const Node& node : graph.nodes()) {
    if (!KnownNaively(node.op)) {
      values.push_back(leaves.at(node.name));
      continue;
    }
    Operands operands;
    for (graph::ValueId id : node.operands) operands.push_back(&values[id]);
    values.push_back(ComputeNaively(node, operands));
  }
  std::vector<Array> outputs;
  for (const graph::Output& output : graph.outputs()) outputs.push_back(values[output.value]);
  return outputs;
}

}  // namespace latentd::testing
