#include "core/backends/lowering/lowering.h"

#include <optional>
#include <utility>

#include "core/backends/lowering/fused_patterns.h"
#include "core/backends/lowering/program_builder.h"
#include "core/backends/lowering/updates.h"

namespace latentd::backends::lowering {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Shape;
using graph::ValueId;

// An operand that an instruction goes without.
constexpr ValueId kAbsent = -1;

class Lowering {
 public:
  Lowering(const Graph& graph, const KernelRules& rules)
      : graph_(graph), rules_(rules), updates_(FindUpdates(graph)), builder_(rules) {}

  Program Run(const std::vector<graph::Recipe>& recipes) && {
    Scope scope = BindLeaves(recipes);
    const std::vector<bool> concatenated = ConcatenatedReshapes();
    for (ValueId id = 0; id < graph_.size(); ++id) {
      const bool only_for_recipes = graph_.node(id).rate == graph::Rate::kCheckpoint;
      if (scope.values[id].present() || only_for_recipes || concatenated[id]) continue;
      LowerNode(graph_.node(id), id, scope);
    }
    WriteOutputs(scope);
    return std::move(builder_).Finish();
  }

 private:
  // The values of one graph: the outer one or a body.
  struct Scope {
    std::vector<View> values;
    std::vector<int> ports;  // the output port that a node writes itself, or -1
  };

  Scope BindLeaves(const std::vector<graph::Recipe>& recipes) {
    Scope scope{std::vector<View>(graph_.size()), PortsOfRoots(graph_)};
    for (int& port : scope.ports) {
      if (port >= 0 && updates_[port].input >= 0 && !updates_[port].in_place) port = -1;
    }
    int port = 0;
    for (ValueId id : graph_.Select(Op::kInput)) {
      scope.values[id] = StoreLeaf(Place::kInput, port++, graph_.node(id));
    }
    for (size_t i = 0; i < recipes.size(); ++i) {
      const ValueId id = recipes[i].value;
      scope.values[id] = StoreLeaf(Place::kHeld, static_cast<int>(i), graph_.node(id));
    }
    return scope;
  }

  // Reshapes that concatenations alone read: those copy what is reshaped, as it lies.
  std::vector<bool> ConcatenatedReshapes() const {
    std::vector<bool> read(graph_.size(), false), otherwise(graph_.size(), false);
    for (const graph::Output& output : graph_.outputs()) otherwise[output.value] = true;
    for (ValueId id = 0; id < graph_.size(); ++id) {
      const Node& reader = graph_.node(id);
      for (ValueId operand : reader.operands) {
        (reader.op == Op::kConcat ? read : otherwise)[operand] = true;
      }
    }
    for (ValueId id = 0; id < graph_.size(); ++id) {
      read[id] = read[id] && !otherwise[id] && graph_.node(id).op == Op::kReshape;
    }
    return read;
  }

  View StoreLeaf(Place place, int index, const Node& node) {
    return builder_.Store(place, index, node.dtype, node.shape);
  }

  // An output that a node makes, reshaped or not, is written in place by that node; where two
  // outputs are one value, the second is copied.
  static std::vector<int> PortsOfRoots(const Graph& graph) {
    std::vector<int> ports(graph.size(), -1);
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      const ValueId root = RootOf(graph, graph.outputs()[i].value);
      if (ports[root] < 0) ports[root] = static_cast<int>(i);
    }
    return ports;
  }

  // The view that a node writes its result to.
  View Result(const Node& node, ValueId id, const Scope& scope) {
    const int port = scope.ports[id];
    return port < 0 ? builder_.Intermediate(node.dtype, node.shape)
                    : StoreOutput(port, node.dtype, node.shape);
  }

  View StoreOutput(int port, graph::DType dtype, const Shape& shape) {
    const int input = updates_[port].input;
    return input < 0 ? builder_.Store(Place::kOutput, port, dtype, shape)
                     : builder_.Store(Place::kInput, input, dtype, shape);
  }

  // Writes outputs that update an input last, when inputs are read no more.
  void WriteOutputs(const Scope& scope) {
    std::vector<View> values;
    for (const graph::Output& output : graph_.outputs()) {
      values.push_back(scope.values[output.value]);
    }
    const int count = static_cast<int>(values.size());
    for (int i = 0; i < count; ++i) {
      if (updates_[i].input < 0) WriteOutput(values[i], i);
    }
    for (int i = 0; i < count; ++i) {
      const bool is_input = StorageOf(values[i]).place == Place::kInput;
      if (updates_[i].input >= 0 && is_input && !IsWritten(values[i], i)) {
        values[i] = builder_.Copied(values[i]);
      }
    }
    for (int i = 0; i < count; ++i) {
      if (updates_[i].input >= 0) WriteOutput(values[i], i);
    }
  }

  const Storage& StorageOf(const View& view) const {
    return builder_.program().storages[view.storage];
  }

  bool IsWritten(const View& value, int port) const {
    const Storage& storage = StorageOf(value);
    const int input = updates_[port].input;
    const bool is_port = input < 0 ? storage.place == Place::kOutput && storage.index == port
                                   : storage.place == Place::kInput && storage.index == input;
    return is_port && value.dense() && storage.elements == value.shape.elements();
  }

  void WriteOutput(const View& value, int port) {
    if (!IsWritten(value, port)) builder_.Copy(value, StoreOutput(port, value.dtype, value.shape));
  }

  void LowerNode(const Node& node, ValueId id, Scope& scope) {
    switch (node.op) {
      case Op::kConstant:
        scope.values[id] = builder_.Literal(node);
        return;
      case Op::kReshape:
        scope.values[id] = ReshapedOrCopied(node, scope);
        return;
      case Op::kSlice:
        scope.values[id] = Sliced(scope.values[node.operands[0]],
                                  std::get<graph::SliceAttributes>(node.attributes));
        return;
      case Op::kPermute:
        scope.values[id] = Permuted(scope.values[node.operands[0]],
                                    std::get<graph::PermuteAttributes>(node.attributes).order);
        return;
      case Op::kConcat:
        return LowerConcat(node, id, scope);
      case Op::kFused:
        return LowerFused(node, id, scope);
      default:
        return LowerComputed(*KernelOf(node.op), node, id, scope);
    }
  }

  void LowerComputed(Kernel kernel, const Node& node, ValueId id, Scope& scope) {
    std::vector<ValueId> operands = node.operands;
    operands.resize(OperandCount(kernel, operands.size()), kAbsent);
    return LowerKernel(Begin(kernel, node), operands, node, id, scope);
  }

  View ReshapedOrCopied(const Node& node, Scope& scope) {
    const ValueId operand = node.operands[0];
    if (std::optional<View> view = Reshaped(scope.values[operand], node.shape)) return *view;
    return *Reshaped(Dense(operand, scope), node.shape);
  }

  // The value without gaps, copied once if need be.
  const View& Dense(ValueId id, Scope& scope) {
    View& value = scope.values[id];
    if (!value.dense()) value = builder_.Copied(value);
    return value;
  }

  void LowerConcat(const Node& node, ValueId id, Scope& scope) {
    const int64_t axis = std::get<graph::ConcatAttributes>(node.attributes).axis;
    const View result = Result(node, id, scope);
    View part = result;
    for (ValueId operand : node.operands) {
      const bool is_reshape = !scope.values[operand].present();
      part.shape = is_reshape ? graph_.node(operand).shape : scope.values[operand].shape;
      is_reshape ? CopyReshaped(operand, part, scope) : builder_.Copy(scope.values[operand], part);
      part.offset += part.shape[static_cast<int>(axis)] * part.strides[axis];
    }
    scope.values[id] = result;
  }

  // Copies for a reshape that has not been lowered.
  void CopyReshaped(ValueId reshape, const View& to, Scope& scope) {
    const Node& node = graph_.node(reshape);
    const View& from = scope.values[node.operands[0]];
    if (const std::optional<View> place = Reshaped(to, from.shape)) {
      return builder_.Copy(from, *place);
    }
    builder_.Copy(ReshapedOrCopied(node, scope), to);
  }

  void LowerFused(const Node& node, ValueId id, Scope& scope) {
    const auto& fused = std::get<graph::FusedAttributes>(node.attributes);
    const std::optional<FusedMatch> match = Match(fused);
    if (!match.has_value() || !RunsFused(*match, node, scope)) {
      return LowerBody(*fused.body, node, id, scope);
    }
    Instruction instruction = Begin(match->kernel, fused.body->node(match->product));
    instruction.activation = match->activation;
    std::vector<ValueId> operands;
    for (int operand : match->operands) {
      operands.push_back(operand < 0 ? kAbsent : node.operands[operand]);
    }
    return LowerKernel(std::move(instruction), operands, node, id, scope);
  }

  bool RunsFused(const FusedMatch& match, const Node& node, const Scope& scope) const {
    const View& second = scope.values[node.operands[match.operands[1]]];
    const bool held = HasWeight(match.kernel) && IsHeld(builder_.program(), second);
    return rules_.RunsFused(match, node.dtype, held);
  }

  void LowerBody(const Graph& body, const Node& node, ValueId id, Scope& outer) {
    Scope scope{std::vector<View>(body.size()), PortsOfRoots(body)};
    for (int& port : scope.ports) port = port < 0 ? -1 : outer.ports[id];
    size_t input = 0;
    for (ValueId value : body.Select(Op::kInput)) {
      scope.values[value] = outer.values[node.operands[input++]];
    }
    for (ValueId value = 0; value < body.size(); ++value) {
      if (scope.values[value].present()) continue;
      LowerNode(body.node(value), value, scope);
    }
    outer.values[id] = scope.values[body.outputs()[0].value];
  }

  static Instruction Begin(Kernel kernel, const Node& node) {
    Instruction instruction;
    instruction.kernel = kernel;
    instruction.op = node.op;
    instruction.attributes = node.attributes;
    return instruction;
  }

  // False: they are no convolution's in NCHW.
  static bool MakeNhwc(graph::Attributes& attributes) {
    const auto make = [](auto* conv) {
      if (conv == nullptr || conv->layout == graph::Layout::kNhwc) return false;
      conv->layout = graph::Layout::kNhwc;
      return true;
    };
    return make(std::get_if<graph::Conv2dAttributes>(&attributes)) ||
           make(std::get_if<graph::F8Conv2dAttributes>(&attributes));
  }

  void LowerKernel(Instruction instruction, const std::vector<ValueId>& operands, const Node& node,
                   ValueId id, Scope& scope) {
    if (MakeNhwc(instruction.attributes)) {
      return LowerNchw(std::move(instruction), operands, node, id, scope);
    }
    for (ValueId operand : operands) AddOperand(instruction, operand, scope);
    if (instruction.kernel == Kernel::kBinary) {
      for (View& operand : instruction.operands) operand = BroadcastTo(operand, node.shape);
    }
    scope.values[id] = Result(node, id, scope);
    builder_.Emit(std::move(instruction), scope.values[id]);
  }

  // Adds an operand, copied once for all instructions that cannot read it as it lies.
  void AddOperand(Instruction& instruction, ValueId operand, Scope& scope) {
    if (operand == kAbsent) return builder_.AddOperand(instruction, View());
    const bool fits = builder_.HasStridesFor(instruction, scope.values[operand]);
    builder_.AddOperand(instruction, fits ? scope.values[operand] : Dense(operand, scope));
  }

  // A convolution of images in NCHW is one in NHWC between permutes, which as views cost nothing
  // where the neighbours are convolutions too.
  void LowerNchw(Instruction instruction, const std::vector<ValueId>& operands, const Node& node,
                 ValueId id, Scope& scope) {
    for (ValueId operand : operands) {
      const bool image =
          operand != kAbsent && operand != operands[1] && scope.values[operand].shape.rank() == 4;
      if (!image) {
        AddOperand(instruction, operand, scope);
        continue;
      }
      const View view = Permuted(scope.values[operand], {0, 2, 3, 1});
      const bool fits = builder_.HasStridesFor(instruction, view);
      builder_.AddOperand(instruction, fits ? view : builder_.Copied(view));
    }
    const Shape nhwc = {node.shape[0], node.shape[2], node.shape[3], node.shape[1]};
    const View result = builder_.Intermediate(node.dtype, nhwc);
    scope.values[id] = Permuted(result, {0, 3, 1, 2});
    builder_.Emit(std::move(instruction), result);
  }

  const Graph& graph_;
  const KernelRules& rules_;
  const std::vector<Update> updates_;
  ProgramBuilder builder_;
};

}  // namespace

Program Lower(const Graph& graph, const std::vector<graph::Recipe>& recipes,
              const KernelRules& rules) {
  return Lowering(graph, rules).Run(recipes);
}

}  // namespace latentd::backends::lowering
