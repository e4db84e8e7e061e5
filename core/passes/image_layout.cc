#include "core/passes/image_layout.h"

#include <algorithm>

#include "core/passes/rewrite.h"

namespace latentd::passes {
namespace {

using graph::Layout;
using graph::Shape;

const std::vector<int64_t>& ToNhwc() {
  static const auto& order = *new std::vector<int64_t>{0, 2, 3, 1};
  return order;
}
const std::vector<int64_t>& ToNchw() {
  static const auto& order = *new std::vector<int64_t>{0, 3, 1, 2};
  return order;
}

// Where an NCHW axis lies in NHWC.
int64_t NhwcAxis(int64_t axis) { return axis == 0 ? 0 : axis == 1 ? 3 : axis - 1; }

bool Permutes(const Node& node, const std::vector<int64_t>& order) {
  return node.op == Op::kPermute &&
         std::get<graph::PermuteAttributes>(node.attributes).order == order;
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
    if (Permutes(node, ToNhwc())) {
      forms_[id].plain = Nhwc(node.operands[0]);
    } else if (Permutes(node, ToNchw())) {
      forms_[id].nhwc = Plain(node.operands[0]);
    } else if (WantsNhwc(node) || (FollowsOperands(node) && HasNhwcOperand(node))) {
      EmitNhwc(id);
    } else {
      KeepPlain(id);
    }
  }

  static bool WantsNhwc(const Node& node) {
    switch (node.op) {
      case Op::kConv2d:
        return std::get<graph::Conv2dAttributes>(node.attributes).layout == Layout::kNchw;
      case Op::kGroupNorm:
        return std::get<graph::GroupNormAttributes>(node.attributes).layout == Layout::kNchw;
      case Op::kUpsampleNearest:
        return std::get<graph::UpsampleAttributes>(node.attributes).layout == Layout::kNchw;
      default:
        return false;
    }
  }

  // Broadcast as it is.
  static bool IsScalar(const Node& node) {
    return node.shape.rank() < 4 && node.shape.elements() == 1;
  }

  // Ops that work in either layout.
  static bool FollowsOperands(const Node& node) {
    if (node.shape.rank() != 4) return false;
    switch (node.op) {
      case Op::kSilu:
      case Op::kGelu:
      case Op::kQuickGelu:
      case Op::kRelu:
      case Op::kTanh:
      case Op::kCast:
      case Op::kAdd:
      case Op::kSub:
      case Op::kMul:
      case Op::kDiv:
      case Op::kConcat:
      case Op::kSlice:
        return true;
      default:
        return false;
    }
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

  void EmitNhwc(ValueId id) {
    Node node = graph_.node(id);
    SetLayout(&node);
    // Of convolutions and norms only the first operand is an image.
    const size_t images = WantsNhwc(graph_.node(id)) ? 1 : node.operands.size();
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId operand = node.operands[i];
      const bool as_image = i < images && !IsScalar(graph_.node(operand));
      node.operands[i] = (as_image ? Nhwc(operand) : Plain(operand)).id;
    }
    forms_[id].nhwc = builder_.Append(std::move(node));
  }

  static void SetLayout(Node* node) {
    if (auto* conv = std::get_if<graph::Conv2dAttributes>(&node->attributes)) {
      conv->layout = Layout::kNhwc;
    } else if (auto* norm = std::get_if<graph::GroupNormAttributes>(&node->attributes)) {
      norm->layout = Layout::kNhwc;
    } else if (auto* upsample = std::get_if<graph::UpsampleAttributes>(&node->attributes)) {
      upsample->layout = Layout::kNhwc;
    } else if (auto* concat = std::get_if<graph::ConcatAttributes>(&node->attributes)) {
      concat->axis = NhwcAxis(concat->axis);
    } else if (auto* slice = std::get_if<graph::SliceAttributes>(&node->attributes)) {
      slice->axis = NhwcAxis(slice->axis);
    }
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

  // A permute, or less where it moves nothing in memory: sizes other than 1 stay in order.
  Value Permuted(Value value, const std::vector<int64_t>& order) {
    const Shape from = builder_.shape(value);
    std::vector<int64_t> dims, moved;
    for (int64_t axis : order) {
      dims.push_back(from[static_cast<int>(axis)]);
      if (dims.back() != 1) moved.push_back(axis);
    }
    const Shape to(std::move(dims));
    if (!std::is_sorted(moved.begin(), moved.end())) return builder_.Permute(value, order);
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
