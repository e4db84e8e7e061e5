#include "core/adapters/lora/delta_graph.h"

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/graph/graph_builder.h"

namespace latentd::adapters {
namespace {

using device::Shape;
using graph::GraphBuilder;
using graph::Value;
using weights::Source;
using weights::StoredTensor;

// A graph under construction with the sources that its leaves stand for.
struct Recipe {
  GraphBuilder b;
  std::vector<Source> operands = {};

  Value Read(const Source& source) {
    operands.push_back(source);
    return b.Weight(absl::StrCat("w", operands.size() - 1), source.shape());
  }

  // The store names what is made by the digests of its sources.
  Value Read(StoredTensor tensor) {
    if (tensor.digest == nullptr) {
      tensor.digest = std::make_shared<const weights::ContentDigest>(tensor.data);
    }
    return Read(Source::Of(std::move(tensor)));
  }

  Value Times(Value x, double factor) {
    return factor == 1 ? x : b.Mul(x, b.Scalar(static_cast<float>(factor)));
  }

  absl::StatusOr<Source> Finish(Value result) && {
    b.Output("result", result);
    ASSIGN_OR_RETURN(const graph::Graph graph, std::move(b).Build());
    return weights::Compose(graph, operands);
  }
};

// Refuses a factor that float32, in which graphs compute, has not.
absl::Status CheckFactor(double factor) {
  if (std::abs(factor) <= std::numeric_limits<float>::max()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the factor ", factor, " is beyond float32"));
}

// Elements of all dimensions but the first `dimensions`.
int64_t ElementsBehind(const Shape& shape, int dimensions) {
  int64_t elements = 1;
  for (int i = dimensions; i < shape.rank(); ++i) elements *= shape[i];
  return elements;
}

// X[p, q, y, x] = sum over i, j of core[i, j, y, x] * a[p, i] * b[j, q], in the order [p, q, y, x].
Value Tucker(Recipe& r, Value core, Value a, Value b) {
  const Shape shape = r.b.shape(core);
  const int64_t i = shape[0], j = shape[1], height = shape[2], width = shape[3];
  const int64_t p = r.b.shape(a)[0], q = r.b.shape(b)[1];
  const Value last = r.b.Reshape(r.b.Permute(core, {0, 2, 3, 1}), {i * height * width, j});
  const Value right = r.b.Reshape(r.b.Matmul(last, b), {i, height * width * q});
  const Value product = r.b.Reshape(r.b.Matmul(a, right), {p, height, width, q});
  return r.b.Permute(product, {0, 3, 1, 2});
}

Value Product(Recipe& r, const StoredTensor& a, const StoredTensor& b, double factor = 1) {
  const Value left = r.Times(r.Read(a), factor);
  const Value right = r.Read(b);
  return r.b.Matmul(left, right);
}

Value DeltaOf(Recipe& r, const LowRank& low, const Shape& shape, double factor) {
  if (!low.mid) return r.b.Reshape(Product(r, low.up, low.down, factor), shape);
  const Value up = r.Times(r.Read(low.up), factor);
  const Value mid = r.Read(*low.mid);
  const Value down = r.Read(low.down);
  return Tucker(r, mid, up, down);
}

// A factor of Tucker's form, whose first matrix lies the other way.
Value TuckerFactor(Recipe& r, const StoredTensor& core, const StoredTensor& a,
                   const StoredTensor& b, double factor) {
  const Value left = r.Times(r.b.Permute(r.Read(a), {1, 0}), factor);
  const Value middle = r.Read(core);
  const Value right = r.Read(b);
  return Tucker(r, middle, left, right);
}

Value HadamardFactor(Recipe& r, const std::optional<StoredTensor>& core, const StoredTensor& a,
                     const StoredTensor& b, const Shape& shape, double factor) {
  if (core) return TuckerFactor(r, *core, a, b, factor);
  return r.b.Reshape(Product(r, a, b, factor), shape);
}

Value DeltaOf(Recipe& r, const Hadamard& loha, const Shape& shape, double factor) {
  const Value first = HadamardFactor(r, loha.t1, loha.w1_a, loha.w1_b, shape, factor);
  const Value second = HadamardFactor(r, loha.t2, loha.w2_a, loha.w2_b, shape, 1);
  return r.b.Mul(first, second);
}

// The inner factor as [B, D, ...] or [B, D * ...].
Value InnerFactor(Recipe& r, const Kronecker& lokr) {
  if (lokr.w2) return r.Read(*lokr.w2);
  if (lokr.t2) return TuckerFactor(r, *lokr.t2, *lokr.w2_a, *lokr.w2_b, 1);
  return Product(r, *lokr.w2_a, *lokr.w2_b);
}

// Products of each two elements are one matrix product of a column and a row; what remains is to
// bring [A, C, B, D...] into the order [A, B, C, D...].
Value DeltaOf(Recipe& r, const Kronecker& lokr, const Shape& shape, double factor) {
  const Value outer =
      lokr.w1 ? r.Times(r.Read(*lokr.w1), factor) : Product(r, *lokr.w1_a, *lokr.w1_b, factor);
  const Value inner = InnerFactor(r, lokr);
  const int64_t a = r.b.shape(outer)[0], c = r.b.shape(outer)[1];
  const int64_t b = r.b.shape(inner)[0], rest = ElementsBehind(r.b.shape(inner), 1);
  const Value products =
      r.b.Matmul(r.b.Reshape(outer, {a * c, 1}), r.b.Reshape(inner, {1, b * rest}));
  const Value apart = r.b.Reshape(products, {a, c, b, rest});
  return r.b.Reshape(r.b.Permute(apart, {0, 2, 1, 3}), shape);
}

Value DeltaOf(Recipe& r, const Difference& full, const Shape& shape, double factor) {
  return r.b.Reshape(r.Times(r.Read(full.diff), factor), shape);
}

// Lengths of the rows of x [rows, columns], [rows, 1]: x beside -x has the mean 0 and the variance
// 2 * length^2 / (2 * columns - 1).
Value RowLengths(Recipe& r, Value x) {
  const int64_t columns = r.b.shape(x)[1];
  const Value both = r.b.Concat({x, r.Times(x, -1)}, 1);
  return r.Times(r.b.RowStd(both), std::sqrt((2.0 * static_cast<double>(columns) - 1) / 2));
}

Value Lengths(Recipe& r, Value x, Magnitude::Axis axis) {
  const Shape shape = r.b.shape(x);
  const int64_t out = shape[0];
  if (axis == Magnitude::Axis::kRows) {
    return RowLengths(r, r.b.Reshape(x, {out, ElementsBehind(shape, 1)}));
  }
  const int64_t in = shape[1], behind = ElementsBehind(shape, 2);
  const Value by_columns = r.b.Permute(r.b.Reshape(x, {out, in, behind}), {1, 0, 2});
  return RowLengths(r, r.b.Reshape(by_columns, {in, out * behind}));
}

// Shape in which numbers of the rows or columns multiply the weight.
Shape Broadcast(const Shape& weight, Magnitude::Axis axis) {
  std::vector<int64_t> dims(weight.rank(), 1);
  const int kept = axis == Magnitude::Axis::kRows ? 0 : 1;
  dims[kept] = weight[kept];
  return Shape(std::move(dims));
}

absl::Status CheckMagnitude(const Shape& weight, const Magnitude& magnitude) {
  const int64_t values = magnitude.values.data.shape().elements();
  const bool by_rows = magnitude.axis == Magnitude::Axis::kRows;
  if (weight.rank() >= 2 && values == weight[by_rows ? 0 : 1]) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a magnitude of ", values, " numbers for the ",
                                                 by_rows ? "rows" : "columns", " of a weight of ",
                                                 weight.ToString()));
}

}  // namespace

absl::StatusOr<Source> DeltaSource(const WeightChange& change, double factor) {
  const double by = change.scale * factor;
  RETURN_IF_ERROR(CheckFactor(by));
  Recipe r;
  const Value delta = std::visit(
      [&](const auto& kind) { return DeltaOf(r, kind, change.shape, by); }, change.delta);
  return std::move(r).Finish(delta);
}

absl::StatusOr<Source> PaddedDelta(const Source& delta, const Source& weight) {
  const Shape &own = delta.shape(), &wanted = weight.shape();
  if (own == wanted) return delta;
  const bool fits = own.rank() == 4 && wanted.rank() == 4 && own[0] == wanted[0] &&
                    own[1] < wanted[1] && own[2] == wanted[2] && own[3] == wanted[3];
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat("a change of ", own.ToString(), " of a weight of ", wanted.ToString()));
  }
  Recipe r;
  const Value x = r.Read(delta);
  const Value zeros = r.Times(r.b.Slice(r.Read(weight), 1, own[1], wanted[1]), 0);
  const Value padded = r.b.Concat({x, zeros}, 1);
  return std::move(r).Finish(padded);
}

absl::StatusOr<Source> SumOf(const Source& weight, const std::vector<Source>& deltas) {
  Recipe r;
  const Value w = r.Read(weight);
  Value sum = r.Read(deltas[0]);
  for (size_t i = 1; i < deltas.size(); ++i) sum = r.b.Add(sum, r.Read(deltas[i]));
  return std::move(r).Finish(r.b.Add(w, sum));
}

absl::StatusOr<Source> WithMagnitude(const Source& weight, const Source& delta,
                                     const Magnitude& magnitude, double by) {
  RETURN_IF_ERROR(CheckFactor(by));
  RETURN_IF_ERROR(CheckMagnitude(weight.shape(), magnitude));
  Recipe r;
  const Shape broadcast = Broadcast(weight.shape(), magnitude.axis);
  const Value w = r.Read(weight);
  const Value v = r.b.Add(w, r.Read(delta));
  const Value m = r.b.Reshape(r.Read(magnitude.values), broadcast);
  Value length = r.b.Reshape(Lengths(r, v, magnitude.axis), broadcast);
  if (magnitude.rule == Magnitude::Rule::kPeft) {
    const Value scaled = r.b.Mul(v, r.b.Div(m, length));
    return std::move(r).Finish(scaled);
  }
  length = r.b.Add(length, r.b.Scalar(std::numeric_limits<float>::epsilon()));
  const Value change = r.b.Sub(r.b.Mul(v, r.b.Div(m, length)), w);
  const Value changed = r.b.Add(w, r.Times(change, by));
  return std::move(r).Finish(changed);
}

}  // namespace latentd::adapters
