#include "core/passes/fusion.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/passes/rewrite.h"

namespace latentd::passes {
namespace {

// The body of a chain, and the old values that its inputs stand for.
class Body {
 public:
  explicit Body(const Graph& graph) : graph_(graph) {}

  void Add(ValueId id) {
    Node node = graph_.node(id);
    for (ValueId& operand : node.operands) operand = InBody(operand).id;
    values_[id] = builder_.Append(std::move(node));
    last_ = values_[id];
  }

  const std::vector<ValueId>& operands() const { return operands_; }

  absl::StatusOr<Graph> Finish() && {
    builder_.Output("result", last_);
    return std::move(builder_).Build();
  }

 private:
  Value InBody(ValueId old) {
    const auto [entry, is_new] = values_.try_emplace(old);
    if (is_new) {
      const Node& node = graph_.node(old);
      entry->second =
          builder_.Input(absl::StrCat(operands_.size()), node.dtype, node.shape, Rate::kStep);
      operands_.push_back(old);
    }
    return entry->second;
  }

  const Graph& graph_;
  GraphBuilder builder_;
  absl::flat_hash_map<ValueId, Value> values_;
  std::vector<ValueId> operands_;
  Value last_;
};

absl::StatusOr<Node> FusedNode(const Graph& graph, const Chain& chain) {
  Body body(graph);
  for (ValueId id : chain.nodes) body.Add(id);
  Node node{.op = Op::kFused, .operands = body.operands()};
  ASSIGN_OR_RETURN(Graph finished, std::move(body).Finish());
  node.attributes =
      graph::FusedAttributes{chain.kind, std::make_shared<const Graph>(std::move(finished))};
  return node;
}

}  // namespace

absl::StatusOr<Graph> Fuse(const Graph& graph, const std::vector<Chain>& chains) {
  std::vector<bool> absorbed(graph.size(), false);
  absl::flat_hash_map<ValueId, const Chain*> by_last;
  for (const Chain& chain : chains) {
    for (ValueId id : chain.nodes) absorbed[id] = true;
    by_last[chain.nodes.back()] = &chain;
  }
  Rewrite rewrite(graph);
  for (ValueId id = 0; id < graph.size(); ++id) {
    if (!absorbed[id]) rewrite.Copy(id);
    const auto chain = by_last.find(id);
    if (chain == by_last.end()) continue;
    ASSIGN_OR_RETURN(Node node, FusedNode(graph, *chain->second));
    for (ValueId& operand : node.operands) operand = rewrite[operand].id;
    rewrite.Set(id, rewrite.builder().Append(std::move(node)));
  }
  return std::move(rewrite).Finish();
}

}  // namespace latentd::passes
