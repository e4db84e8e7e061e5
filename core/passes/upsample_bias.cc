#include "core/passes/upsample_bias.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/passes/rewrite.h"
#include "core/passes/upsample_conv2d.h"

namespace latentd::passes {
namespace {

using graph::DType;
using graph::Layout;
using graph::Shape;

constexpr size_t kBias = 2;  // index of the bias among a convolution's operands

bool HasBias(const Node& conv) { return conv.operands.size() > kBias; }

Layout LayoutOf(const Node& node) { return *graph::LayoutOf(node.attributes); }

// The upsampled image whose bias a reader gets, by the reader.
struct Moves {
  absl::flat_hash_set<ValueId> images;              // convolutions that lose their bias
  absl::flat_hash_map<ValueId, ValueId> norms;      // group norms of one
  absl::flat_hash_map<ValueId, ValueId> products;   // convolutions of one
  absl::flat_hash_map<ValueId, ValueId> residuals;  // convolutions to which one is added
};

class MoveSearch {
 public:
  explicit MoveSearch(const Graph& graph)
      : graph_(graph), sole_readers_(SoleReaders(graph)), readers_(graph.size()) {
    for (ValueId id = 0; id < graph.size(); ++id) {
      for (ValueId operand : graph.node(id).operands) readers_[operand].push_back(id);
    }
    for (const Chain& chain : UpsampleConvolutions(graph)) upsampled_.insert(chain.nodes.back());
  }

  Moves Run() {
    Moves moves;
    const std::vector<int> uses = graph_.UseCounts();
    for (ValueId image : upsampled_) {
      const std::vector<ValueId>& readers = readers_[image];
      const bool is_output = uses[image] != static_cast<int>(readers.size());
      if (is_output || !HasBias(graph_.node(image)) || !MayChangeBias(graph_.node(image))) continue;
      const bool all_take_it = std::all_of(readers.begin(), readers.end(), [&](ValueId reader) {
        return IsNormed(image, reader) || IsProduct(image, reader) || Residual(image, reader) >= 0;
      });
      if (all_take_it) Add(image, moves);
    }
    return moves;
  }

 private:
  void Add(ValueId image, Moves& moves) const {
    moves.images.insert(image);
    for (ValueId reader : readers_[image]) {
      if (IsNormed(image, reader)) moves.norms[reader] = image;
      if (IsProduct(image, reader)) moves.products[reader] = image;
      if (const ValueId conv = Residual(image, reader); conv >= 0) moves.residuals[conv] = image;
    }
  }

  // Without the silu nothing would take the addition, which costs what the bias did.
  bool IsNormed(ValueId image, ValueId reader) const {
    const Node& norm = graph_.node(reader);
    const ValueId silu = sole_readers_[reader];
    return norm.op == Op::kGroupNorm && LayoutOf(norm) == LayoutOf(graph_.node(image)) &&
           silu >= 0 && graph_.node(silu).op == Op::kSilu;
  }

  // At the borders of an image that is padded, the bias does not count in full.
  bool IsProduct(ValueId image, ValueId reader) const {
    const Node& conv = graph_.node(reader);
    if (conv.op != Op::kConv2d || conv.operands[0] != image || !MayChangeBias(conv)) return false;
    const Node& weight = graph_.node(conv.operands[1]);
    const graph::Conv2dAttributes wanted{.layout = LayoutOf(graph_.node(image))};
    return weight.rate == Rate::kCheckpoint && weight.shape[2] == 1 && weight.shape[3] == 1 &&
           std::get<graph::Conv2dAttributes>(conv.attributes) == wanted;
  }

  // The convolution that alone is added to the image by `reader`, or -1. None that is upsampled,
  // whose own bias may be on its way here.
  ValueId Residual(ValueId image, ValueId reader) const {
    const Node& add = graph_.node(reader);
    if (add.op != Op::kAdd) return -1;
    const ValueId other = add.operands[add.operands[0] == image ? 1 : 0];
    const Node& conv = graph_.node(other);
    const bool fits = conv.op == Op::kConv2d && !upsampled_.contains(other) &&
                      sole_readers_[other] == reader && MayChangeBias(conv) &&
                      conv.shape == graph_.node(image).shape &&
                      LayoutOf(conv) == LayoutOf(graph_.node(image));
    return fits ? other : -1;
  }

  // True if the convolution's bias is a weight, or there is none.
  bool MayChangeBias(const Node& conv) const {
    return !HasBias(conv) || graph_.node(conv.operands[kBias]).rate == Rate::kCheckpoint;
  }

  const Graph& graph_;
  const std::vector<ValueId> sole_readers_;
  std::vector<std::vector<ValueId>> readers_;
  absl::flat_hash_set<ValueId> upsampled_;
};

class BiasRewrite {
 public:
  BiasRewrite(const Graph& graph, const Moves& moves)
      : graph_(graph), moves_(moves), rewrite_(graph), builder_(rewrite_.builder()) {}

  absl::StatusOr<Graph> Run() && {
    // Weights first: a convolution may come before the one whose bias it gets.
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (graph_.node(id).rate == Rate::kCheckpoint) rewrite_.Copy(id);
    }
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (graph_.node(id).rate != Rate::kCheckpoint) rewrite_.Set(id, Emit(id));
    }
    return std::move(rewrite_).Finish();
  }

 private:
  Value Emit(ValueId id) {
    Node node = rewrite_.Renumbered(id);
    if (moves_.images.contains(id)) node.operands.resize(kBias);
    if (const auto norm = moves_.norms.find(id); norm != moves_.norms.end()) {
      const Value image = rewrite_[norm->second];
      node.operands[0] = builder_.Add(image, Channels(norm->second)).id;
    }
    if (moves_.products.contains(id) || moves_.residuals.contains(id)) {
      node.operands.resize(kBias);
      node.operands.push_back(NewBias(id).id);
    }
    return builder_.Append(std::move(node));
  }

  Value BiasOf(ValueId conv) const {
    const Node& node = graph_.node(conv);
    return HasBias(node) ? rewrite_[node.operands[kBias]] : graph::kNone;
  }

  // The image's bias for each of its rows: kernels read what a norm adds so.
  Value Channels(ValueId image) {
    const Node& node = graph_.node(image);
    const Value bias = BiasOf(image);
    const int64_t channels = builder_.shape(bias)[0], rows = node.shape[0];
    const Shape row =
        LayoutOf(node) == Layout::kNchw ? Shape{1, channels, 1, 1} : Shape{1, 1, 1, channels};
    const Value one = builder_.Reshape(bias, row);
    return rows == 1 ? one : builder_.Concat(std::vector<Value>(rows, one), 0);
  }

  // The bias of a convolution that takes over one or two others' biases, in its own dtype.
  Value NewBias(ValueId conv) {
    const Node& node = graph_.node(conv);
    Value bias = BiasOf(conv);
    if (const auto product = moves_.products.find(conv); product != moves_.products.end()) {
      const Shape& weight = graph_.node(node.operands[1]).shape;
      const Value matrix =
          builder_.Reshape(As(rewrite_[node.operands[1]], DType::kF32), {weight[0], weight[1]});
      if (HasBias(node)) bias = As(bias, DType::kF32);
      bias = builder_.Linear(As(BiasOf(product->second), DType::kF32), matrix, bias);
    }
    if (const auto residual = moves_.residuals.find(conv); residual != moves_.residuals.end()) {
      const Value more = BiasOf(residual->second);
      bias = bias.id == graph::kNone.id
                 ? more
                 : builder_.Add(As(bias, DType::kF32), As(more, DType::kF32));
    }
    return As(bias, node.dtype);
  }

  Value As(Value value, DType dtype) {
    return builder_.node(value).dtype == dtype ? value : builder_.Cast(value, dtype);
  }

  const Graph& graph_;
  const Moves& moves_;
  Rewrite rewrite_;
  GraphBuilder& builder_;
};

}  // namespace

absl::StatusOr<Graph> MoveUpsampleBias(const Graph& graph, const graph::Target& target) {
  const bool pays = target.moves_upsample_bias && target.fused.contains(graph::kUpsampleConv2d) &&
                    target.fused.contains(graph::kGroupNormSilu);
  if (!pays) return graph;
  const Moves moves = MoveSearch(graph).Run();
  return moves.images.empty() ? graph : BiasRewrite(graph, moves).Run();
}

}  // namespace latentd::passes
