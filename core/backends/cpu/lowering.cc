#include "core/backends/cpu/lowering.h"

#include <map>
#include <optional>
#include <tuple>

#include "core/backends/cpu/algorithms.h"
#include "core/backends/cpu/fused_patterns.h"
#include "core/backends/cpu/kernel_rules.h"

namespace latentd::backends::cpu {
namespace {

using graph::DType;
using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Shape;
using graph::ValueId;

// An operand that an instruction goes without.
constexpr ValueId kAbsent = -1;

// `view` read as a larger shape: trailing dimensions are aligned, those of size 1 stand still.
View BroadcastTo(const View& view, const Shape& shape) {
  View wide = view;
  wide.shape = shape;
  wide.strides.assign(shape.rank(), 0);
  const int skipped = shape.rank() - view.shape.rank();
  for (int d = 0; d < view.shape.rank(); ++d) {
    if (view.shape[d] != 1) wide.strides[d + skipped] = view.strides[d];
  }
  return wide;
}

class Lowering {
 public:
  explicit Lowering(const Machine& machine) : machine_(machine) {}

  Program Run(const Graph& graph, const std::vector<graph::Recipe>& recipes) {
    Scope scope = BindLeaves(graph, recipes);
    for (ValueId id = 0; id < graph.size(); ++id) {
      const bool only_for_recipes = graph.node(id).rate == graph::Rate::kCheckpoint;
      if (scope.values[id].present() || only_for_recipes) continue;
      LowerNode(graph.node(id), id, scope);
    }
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      WriteOutput(scope.values[graph.outputs()[i].value], static_cast<int>(i));
    }
    return std::move(program_);
  }

 private:
  // The values of one graph: the outer one or a body.
  struct Scope {
    std::vector<View> values;
    std::vector<int> ports;  // the output port that a node writes itself, or -1
  };

  Scope BindLeaves(const Graph& graph, const std::vector<graph::Recipe>& recipes) {
    Scope scope{std::vector<View>(graph.size()), PortsOfRoots(graph)};
    int port = 0;
    for (ValueId id : graph.Select(Op::kInput)) {
      scope.values[id] = Store(Place::kInput, port++, graph.node(id));
    }
    for (size_t i = 0; i < recipes.size(); ++i) {
      const ValueId id = recipes[i].value;
      scope.values[id] = Store(Place::kHeld, static_cast<int>(i), graph.node(id));
    }
    return scope;
  }

  // An output that a node makes, reshaped or not, is written in place by that node; where two
  // outputs are one value, the second is copied.
  static std::vector<int> PortsOfRoots(const Graph& graph) {
    std::vector<int> ports(graph.size(), -1);
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      ValueId root = graph.outputs()[i].value;
      while (graph.node(root).op == Op::kReshape) root = graph.node(root).operands[0];
      if (ports[root] < 0) ports[root] = static_cast<int>(i);
    }
    return ports;
  }

  View Store(Place place, int index, const Node& node) {
    program_.storages.push_back({place, index, node.dtype, node.shape.elements(), nullptr});
    return DenseView(static_cast<int>(program_.storages.size()) - 1, node.dtype, node.shape);
  }

  // Where a node is to write its result.
  View Result(const Node& node, ValueId id, const Scope& scope) {
    const int port = scope.ports[id];
    return port < 0 ? Store(Place::kArena, 0, node) : Store(Place::kOutput, port, node);
  }

  // The value without gaps, copied once if need be.
  const View& Dense(ValueId id, Scope& scope) {
    return scope.values[id] = DenseCopy(scope.values[id]);
  }

  View DenseCopy(const View& view) {
    if (view.dense()) return view;
    Node like;
    like.dtype = view.dtype;
    like.shape = view.shape;
    View copy = Store(Place::kArena, 0, like);
    Copy(view, copy);
    return copy;
  }

  void Copy(const View& from, const View& to) {
    Instruction copy;
    copy.kernel = Kernel::kCopy;
    copy.operands = {from};
    copy.result = to;
    program_.instructions.push_back(std::move(copy));
  }

  void WriteOutput(const View& value, int port) {
    const Storage& storage = program_.storages[value.storage];
    const bool written = storage.place == Place::kOutput && storage.index == port &&
                         value.dense() && storage.elements == value.shape.elements();
    if (written) return;
    Node like;
    like.dtype = value.dtype;
    like.shape = value.shape;
    Copy(value, Store(Place::kOutput, port, like));
  }

  void LowerNode(const Node& node, ValueId id, Scope& scope) {
    switch (node.op) {
      case Op::kConstant:
        scope.values[id] = Literal(node);
        return;
      case Op::kReshape:
        scope.values[id] = ReshapedOrCopied(node, scope);
        return;
      case Op::kSlice:
        scope.values[id] = Sliced(node, scope.values[node.operands[0]]);
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
        return LowerCompute(node, id, scope);
    }
  }

  View ReshapedOrCopied(const Node& node, Scope& scope) {
    const ValueId operand = node.operands[0];
    if (std::optional<View> view = Reshaped(scope.values[operand], node.shape)) return *view;
    return *Reshaped(Dense(operand, scope), node.shape);
  }

  // A constant (f32) of a fused node's body; those of the graph itself are recipes.
  View Literal(const Node& node) {
    View view = Store(Place::kLiteral, 0, node);
    program_.storages.back().literal =
        std::get<graph::ConstantAttributes>(node.attributes).values.data();
    return view;
  }

  static View Sliced(const Node& node, View view) {
    const auto& slice = std::get<graph::SliceAttributes>(node.attributes);
    view.offset += slice.begin * view.strides[slice.axis];
    view.shape = node.shape;
    return view;
  }

  static View Permuted(const View& x, const std::vector<int64_t>& order) {
    View view = x;
    std::vector<int64_t> dims;
    for (size_t d = 0; d < order.size(); ++d) {
      view.strides[d] = x.strides[order[d]];
      dims.push_back(x.shape[static_cast<int>(order[d])]);
    }
    view.shape = Shape(std::move(dims));
    return view;
  }

  void LowerConcat(const Node& node, ValueId id, Scope& scope) {
    const int64_t axis = std::get<graph::ConcatAttributes>(node.attributes).axis;
    const View result = Result(node, id, scope);
    View part = result;
    for (ValueId operand : node.operands) {
      const View& from = scope.values[operand];
      part.shape = from.shape;
      Copy(from, part);
      part.offset += from.shape[static_cast<int>(axis)] * part.strides[axis];
    }
    scope.values[id] = result;
  }

  void LowerFused(const Node& node, ValueId id, Scope& scope) {
    const auto& fused = std::get<graph::FusedAttributes>(node.attributes);
    if (const std::optional<FusedMatch> match = Match(fused)) {
      const Node& product = fused.body->node(match->product);
      const bool lacks_weight = WantsHeldWeight(match->kernel) &&
                                !IsHeld(scope.values[node.operands[match->operands[1]]]);
      // Four ninths of the multiplications in f32 are more work than all of them in bf16.
      const bool faster_in_parts = match->kernel == Kernel::kUpsampleConvolution &&
                                   node.dtype == DType::kBF16 && MultipliesInBf16(machine_);
      if (lacks_weight || faster_in_parts) return LowerBody(*fused.body, node, id, scope);
      Instruction instruction = Begin(match->kernel, product);
      instruction.activation = match->activation;
      std::vector<ValueId> operands;
      for (int operand : match->operands) {
        operands.push_back(operand < 0 ? kAbsent : node.operands[operand]);
      }
      return LowerPlain(std::move(instruction), operands, node, id, scope);
    }
    return LowerBody(*fused.body, node, id, scope);
  }

  // Whether a weight is a recipe's whole result, which the store can hold in another form.
  bool IsHeld(const View& weight) const {
    const Storage& storage = program_.storages[weight.storage];
    return storage.place == Place::kHeld && storage.elements == weight.shape.elements();
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

  void LowerCompute(const Node& node, ValueId id, Scope& scope) {
    if (node.op == Op::kAttention) return LowerAttention(node, id, scope);
    if (const std::optional<Kernel> kernel = PlainKernel(node.op)) {
      std::vector<ValueId> operands = node.operands;
      operands.resize(OperandCount(*kernel, operands.size()), kAbsent);
      return LowerPlain(Begin(*kernel, node), operands, node, id, scope);
    }
    Instruction instruction = Begin(Kernel::kBinary, node);
    for (ValueId operand : node.operands) {
      const View view = Readable(instruction, scope.values[operand]);
      instruction.operands.push_back(BroadcastTo(view, node.shape));
    }
    return Finish(std::move(instruction), node, id, scope);
  }

  // An instruction whose operands are dense.
  void LowerPlain(Instruction instruction, const std::vector<ValueId>& operands, const Node& node,
                  ValueId id, Scope& scope) {
    auto* conv = std::get_if<graph::Conv2dAttributes>(&instruction.attributes);
    if (conv != nullptr && conv->layout == graph::Layout::kNchw) {
      conv->layout = graph::Layout::kNhwc;
      return LowerNchw(std::move(instruction), operands, node, id, scope);
    }
    for (ValueId operand : operands) {
      const View view = operand == kAbsent ? View() : Dense(operand, scope);
      instruction.operands.push_back(Readable(instruction, view));
    }
    return Finish(std::move(instruction), node, id, scope);
  }

  // A convolution of images in NCHW is one in NHWC between permutes, which as views cost nothing
  // where the neighbours are convolutions too.
  void LowerNchw(Instruction instruction, const std::vector<ValueId>& operands, const Node& node,
                 ValueId id, Scope& scope) {
    for (ValueId operand : operands) {
      View view = operand == kAbsent ? View() : scope.values[operand];
      const bool image = view.present() && view.shape.rank() == 4 && operand != operands[1];
      if (image) view = DenseCopy(Permuted(view, {0, 2, 3, 1}));
      if (!image && view.present()) view = Dense(operand, scope);
      instruction.operands.push_back(Readable(instruction, view));
    }
    Node nhwc;
    nhwc.dtype = node.dtype;
    nhwc.shape = Shape{node.shape[0], node.shape[2], node.shape[3], node.shape[1]};
    const View result = Store(Place::kArena, 0, nhwc);
    scope.values[id] = Permuted(result, {0, 3, 1, 2});
    Emit(std::move(instruction), result);
  }

  void LowerAttention(const Node& node, ValueId id, Scope& scope) {
    Instruction instruction = Begin(Kernel::kAttention, node);
    for (ValueId operand : node.operands) {
      const View& view = scope.values[operand];
      const bool contiguous = view.shape[2] == 1 || view.strides[2] == 1;
      instruction.operands.push_back(
          Readable(instruction, contiguous ? view : Dense(operand, scope)));
    }
    return Finish(std::move(instruction), node, id, scope);
  }

  static Instruction Begin(Kernel kernel, const Node& node) {
    Instruction instruction;
    instruction.kernel = kernel;
    instruction.op = node.op;
    instruction.attributes = node.attributes;
    return instruction;
  }

  void Finish(Instruction instruction, const Node& node, ValueId id, Scope& scope) {
    scope.values[id] = Result(node, id, scope);
    Emit(std::move(instruction), scope.values[id]);
  }

  // What a kernel computes in f32 is rounded into a value of another dtype.
  void Emit(Instruction instruction, const View& to) {
    const bool same =
        instruction.kernel == Kernel::kCast || instruction.operands[0].dtype == to.dtype;
    instruction.result = same ? to : Temporary(to.shape);
    program_.instructions.push_back(std::move(instruction));
    if (!same) Convert(View(program_.instructions.back().result), to);
  }

  void Convert(const View& from, const View& to) {
    Instruction cast;
    cast.kernel = Kernel::kCast;
    cast.op = Op::kCast;
    cast.operands = {from};
    cast.result = to;
    program_.instructions.push_back(std::move(cast));
  }

  View Temporary(const Shape& shape) {
    Node like;
    like.shape = shape;
    return Store(Place::kArena, 0, like);
  }

  // The view as the instruction's next operand, in f32 if its kernel does not read it otherwise.
  //
  // So products of f16, and of bf16 where the processor has none, are f32's over weights that were
  // rounded: there to be compared with, not to be fast. f16 is converted for everything else too,
  // but for what only moves it.
  View Readable(const Instruction& instruction, const View& view) {
    const size_t operand = instruction.operands.size();
    const bool packed = operand == 1 && HasWeight(instruction.kernel) && IsHeld(view);
    const bool readable =
        !view.present() || packed || Reads(instruction.kernel, operand, view.dtype, machine_);
    return readable ? view : Widened(view);
  }

  // A copy in f32, made once: of a recipe's whole result when it is loaded.
  View Widened(const View& view) {
    const View dense = DenseCopy(view);
    const auto [made, is_new] = widened_.try_emplace(
        std::tuple(dense.storage, dense.offset, dense.shape.elements()), View());
    if (is_new && IsHeld(dense)) {
      Storage storage = program_.storages[dense.storage];
      storage.dtype = DType::kF32;
      storage.widened = true;
      program_.storages.push_back(storage);
      made->second =
          DenseView(static_cast<int>(program_.storages.size()) - 1, DType::kF32, dense.shape);
    } else if (is_new) {
      made->second = Temporary(dense.shape);
      Convert(dense, made->second);
    }
    return DenseView(made->second.storage, DType::kF32, dense.shape);
  }

  const Machine& machine_;
  // What there is in f32 of another dtype, by storage, offset and number of elements.
  std::map<std::tuple<int, int64_t, int64_t>, View> widened_;
  Program program_;
};

}  // namespace

Program Lower(const Graph& graph, const std::vector<graph::Recipe>& recipes,
              const Machine& machine) {
  return Lowering(machine).Run(graph, recipes);
}

}  // namespace latentd::backends::cpu
