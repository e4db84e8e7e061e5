#include "core/passes/image_layout.h"

#include <algorithm>

#include "core/passes/rewrite.h"

namespace latentd::passes {
namespace {

using graph::Layout;
using graph::LayoutOf;
using graph::LayoutRule;
using graph::Shape;

const std::vector<int64_t>& ToNhwc() {
  static const auto& order = *new std::vector<int64_t>{0, 2, 3, 1};
  return order;
}
const std::vector<int64_t>& ToNchw() {
  static const auto& order = *new std::vector<int64_t>{0, 3, 1, 2};
  return order;
}

// The place in NHWC of an NCHW axis.
int64_t NhwcAxis(int64_t axis) { return axis == 0 ? 0 : axis == 1 ? 3 : axis - 1; }

// The shape after such a permute.
Shape PermutedShape(const Shape& from, const std::vector<int64_t>& order) {
  std::vector<int64_t> dims;
  for (int64_t axis : order) dims.push_back(from[static_cast<int>(axis)]);
  return Shape(std::move(dims));
}

// True where it moves something in memory: sizes other than 1 do not stay in order.
bool Moves(const Shape& from, const std::vector<int64_t>& order) {
  std::vector<int64_t> moved = order;
  std::erase_if(moved, [&](int64_t axis) { return from[static_cast<int>(axis)] == 1; });
  return !std::is_sorted(moved.begin(), moved.end());
}

// A permute, or the reshape that stands for one which moves nothing.
bool Permutes(const Graph& graph, const Node& node, const std::vector<int64_t>& order) {
  if (node.op == Op::kPermute) {
    return std::get<graph::PermuteAttributes>(node.attributes).order == order;
  }
  if (node.op != Op::kReshape) return false;
  const Shape& from = graph.node(node.operands[0]).shape;
  return from.rank() == 4 && !Moves(from, order) && node.shape == PermutedShape(from, order);
}

// The two forms of a value; kNone where it has not been made.
struct Forms {
  Value plain;  // as in the graph that comes in
  Value nhwc;   // dimensions [0,2,3,1] of that
};

bool Made(Value value) { return value.id != graph::kNone.id; }

class LayoutRewrite {
 public:
  explicit LayoutRewrite(const Graph& graph) : graph_(graph), forms_(graph.size()) {}

  absl::StatusOr<Graph> Run() {
    for (ValueId id = 0; id < graph_.size(); ++id) Convert(id);
    for (const graph::Output& output : graph_.outputs()) {
      builder_.Output(output.name, Plain(output.value));
    }
    return std::move(builder_).Build();
  }

 private:
  void Convert(ValueId id) {
    const Node& node = graph_.node(id);
    if (node.rate == Rate::kCheckpoint) return KeepPlain(id);
    if (Permutes(graph_, node, ToNhwc())) {
      forms_[id].plain = Nhwc(node.operands[0]);
    } else if (Permutes(graph_, node, ToNchw())) {
      forms_[id].nhwc = Plain(node.operands[0]);
    } else {
      ConvertByRule(id, node);
    }
  }

  void ConvertByRule(ValueId id, const Node& node) {
    switch (graph::RowOf(node.op).layout.rule) {
      case LayoutRule::kImages:
        return *LayoutOf(node.attributes) == Layout::kNchw ? EmitNhwc(id, 1) : KeepPlain(id);
      case LayoutRule::kFollows:
        return node.shape.rank() == 4 && HasNhwcOperand(node) ? EmitNhwc(id, node.operands.size())
                                                              : KeepPlain(id);
      case LayoutRule::kUnordered:
        return HasNhwcOperand(node) ? EmitOfNhwc(id) : KeepPlain(id);
      case LayoutRule::kPlain:
        return KeepPlain(id);
    }
  }

  // Broadcast as it is.
  static bool IsScalar(const Node& node) {
    return node.shape.rank() < 4 && node.shape.elements() == 1;
  }

  bool HasNhwcOperand(const Node& node) const {
    return std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId operand) {
      return graph_.node(operand).shape.rank() == 4 && Made(forms_[operand].nhwc) &&
             !Made(forms_[operand].plain);
    });
  }

  void KeepPlain(ValueId id) {
    Node node = graph_.node(id);
    for (ValueId& operand : node.operands) operand = Plain(operand).id;
    forms_[id].plain = builder_.Append(std::move(node));
  }

  // A result that is no image, and the same in whatever order an image's elements are read.
  void EmitOfNhwc(ValueId id) {
    Node node = graph_.node(id);
    node.operands[0] = Nhwc(node.operands[0]).id;
    forms_[id].plain = builder_.Append(std::move(node));
  }

  // Emits the node in NHWC; its first `images` operands are images.
  void EmitNhwc(ValueId id, size_t images) {
    Node node = graph_.node(id);
    SetLayout(&node.attributes);
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId operand = node.operands[i];
      const bool as_image = i < images && !IsScalar(graph_.node(operand));
      node.operands[i] = (as_image ? Nhwc(operand) : Plain(operand)).id;
    }
    forms_[id].nhwc = builder_.Append(std::move(node));
  }

  static void SetLayout(graph::Attributes* attributes) {
    const auto set = [](auto& a) {
      if constexpr (requires { a.layout; }) a.layout = Layout::kNhwc;
      if constexpr (requires { a.axis; }) a.axis = NhwcAxis(a.axis);
    };
    std::visit(set, *attributes);
  }

  Value Plain(ValueId id) {
    Forms& forms = forms_[id];
    if (!Made(forms.plain)) forms.plain = Permuted(forms.nhwc, ToNchw());
    return forms.plain;
  }

  Value Nhwc(ValueId id) {
    Forms& forms = forms_[id];
    if (!Made(forms.nhwc)) forms.nhwc = Permuted(Rank4(forms.plain), ToNhwc());
    return forms.nhwc;
  }

  // An operand of lower rank, with the ones in front that broadcasting adds.
  Value Rank4(Value value) {
    std::vector<int64_t> dims = builder_.shape(value).dims();
    if (dims.size() == 4) return value;
    dims.insert(dims.begin(), 4 - dims.size(), 1);
    return builder_.Reshape(value, Shape(std::move(dims)));
  }

  // A permute, or less where it moves nothing.
  Value Permuted(Value value, const std::vector<int64_t>& order) {
    const Shape from = builder_.shape(value);
    if (Moves(from, order)) return builder_.Permute(value, order);
    const Shape to = PermutedShape(from, order);
    return from == to ? value : builder_.Reshape(value, to);
  }

  const Graph& graph_;
  GraphBuilder builder_;
  std::vector<Forms> forms_;
};

}  // namespace

absl::StatusOr<Graph> ChooseImageLayout(const Graph& graph, const graph::Target& target) {
  if (target.image_layout == Layout::kNchw) return graph;
  return LayoutRewrite(graph).Run();
}

}  // namespace latentd::passes
