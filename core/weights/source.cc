#include "core/weights/source.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/graph/recipes.h"
#include "core/graph/text.h"

namespace latentd::weights {
namespace {

using device::DType;
using device::Shape;
using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;

bool IsSame(const StoredTensor& a, const StoredTensor& b) {
  return a.data.data() == b.data.data() && a.data.dtype() == b.data.dtype() &&
         a.data.shape() == b.data.shape();
}

// True for floats all values of which f32 has.
bool IsExactInF32(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 || device::IsF8(dtype);
}

// Writes one graph of several, and collects the tensors that it reads.
class Composition {
 public:
  // A node's result, or, where `dtype` is f32 and the node's is a lesser float, what it is in f32:
  // that becomes a node only when something reads it.
  struct Value {
    ValueId id;
    DType dtype;
  };

  Value Read(const Source& source) {
    std::vector<Value> tensors;
    for (const StoredTensor& tensor : source.from) tensors.push_back(Leaf(tensor));
    return source.make == nullptr ? tensors[0] : Inline(*source.make, tensors);
  }

  Value Inline(const Graph& graph, absl::Span<const Value> operands) {
    std::vector<Value> values;
    size_t operand = 0;
    for (const Node& node : graph.nodes()) {
      if (node.op == Op::kWeight) {
        values.push_back(Cast(operands[operand++], node.dtype));
      } else if (node.op == Op::kCast) {
        values.push_back(Cast(values[node.operands[0]], node.dtype));
      } else {
        values.push_back(Append(node, values));
      }
    }
    return values[graph.outputs()[0].value];
  }

  Source Finish(Value result) && {
    const ValueId id = Plain(result);
    return {std::move(from_), std::make_shared<const Graph>(
                                  std::move(nodes_), std::vector{graph::Output{"result", id}})};
  }

 private:
  Value Push(Node node) {
    nodes_.push_back(std::move(node));
    return {static_cast<ValueId>(nodes_.size()) - 1, nodes_.back().dtype};
  }

  // Called by number, so that the text does not depend on where the tensors came from.
  Value Leaf(const StoredTensor& tensor) {
    for (size_t i = 0; i < from_.size(); ++i) {
      if (IsSame(from_[i], tensor)) return {leaves_[i], tensor.data.dtype()};
    }
    const Value leaf = Push({.op = Op::kWeight,
                             .dtype = tensor.data.dtype(),
                             .shape = tensor.data.shape(),
                             .name = absl::StrCat("w", from_.size())});
    leaves_.push_back(leaf.id);
    from_.push_back(tensor);
    return leaf;
  }

  Value Append(Node node, absl::Span<const Value> values) {
    for (ValueId& operand : node.operands) operand = Plain(values[operand]);
    return Push(std::move(node));
  }

  Value Cast(Value value, DType to) {
    const DType own = nodes_[value.id].dtype;
    if (to == own || to == value.dtype) return {value.id, to};
    if (to == DType::kF32 && IsExactInF32(own)) return {value.id, to};
    return PushCast(value.id, to);
  }

  Value PushCast(ValueId id, DType to) {
    return Push({.op = Op::kCast,
                 .operands = {id},
                 .attributes = graph::CastAttributes{to},
                 .dtype = to,
                 .shape = nodes_[id].shape});
  }

  // The node that has the value.
  ValueId Plain(Value value) {
    if (nodes_[value.id].dtype == value.dtype) return value.id;
    const auto [known, is_new] = widened_.try_emplace(value.id);
    if (is_new) known->second = PushCast(value.id, value.dtype).id;
    return known->second;
  }

  std::vector<Node> nodes_;
  std::vector<StoredTensor> from_;
  std::vector<ValueId> leaves_;  // leaves of `from_`
  absl::flat_hash_map<ValueId, ValueId> widened_;
};

}  // namespace

DType Source::dtype() const {
  return make == nullptr ? from[0].data.dtype() : graph::ResultOf(*make).dtype;
}

const Shape& Source::shape() const {
  return make == nullptr ? from[0].data.shape() : graph::ResultOf(*make).shape;
}

std::string Source::Content() const {
  std::string content(make == nullptr ? std::string(device::Name(dtype())) : graph::ToText(*make));
  for (const StoredTensor& tensor : from) {
    absl::StrAppend(&content, "\n", tensor.digest->Get().ToString());
  }
  return content;
}

absl::Status CheckFits(const Node& weight, const Source& source) {
  const StoredTensor& first = source.from[0];
  if (!first.unusable_dtype.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", weight.name, " of ", first.file, " has the dtype ", first.unusable_dtype,
        "; F64, F32, F16, BF16, F8_E4M3, F8_E5M2, I64 and U8 can be used"));
  }
  const bool is_dtype = weight.dtype == DType::kF32 || weight.dtype == source.dtype();
  if (is_dtype && weight.shape == source.shape()) return absl::OkStatus();
  const auto type = [](DType dtype, const Shape& shape) {
    return absl::StrCat(device::Name(dtype), shape.ToString());
  };
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor ", weight.name, " of ", first.file, " is ", type(source.dtype(), source.shape()),
      ", the network wants ", type(weight.dtype, weight.shape)));
}

absl::StatusOr<Source> Compose(const Graph& recipe, absl::Span<const Source> operands) {
  const std::vector<ValueId> weights = recipe.Select(Op::kWeight);
  if (weights.size() != operands.size() || !recipe.Select(Op::kInput).empty() ||
      recipe.outputs().size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("a graph of ", weights.size(),
                                                   " weights is not one of ", operands.size(),
                                                   " operands alone to one result"));
  }
  Composition composition;
  std::vector<Composition::Value> values;
  for (size_t i = 0; i < operands.size(); ++i) {
    RETURN_IF_ERROR(CheckFits(recipe.node(weights[i]), operands[i]));
    values.push_back(composition.Read(operands[i]));
  }
  const Composition::Value result = composition.Inline(recipe, values);
  return std::move(composition).Finish(result);
}

}  // namespace latentd::weights
