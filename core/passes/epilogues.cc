#include "core/passes/epilogues.h"

#include "core/passes/fusion.h"
#include "core/passes/rewrite.h"

namespace latentd::passes {
namespace {

// True if `add` adds two values of its own shape: a residual addition.
bool IsResidual(const Graph& graph, const Node& add) {
  return add.op == Op::kAdd && graph.node(add.operands[0]).shape == add.shape &&
         graph.node(add.operands[1]).shape == add.shape;
}

class EpilogueSearch {
 public:
  EpilogueSearch(const Graph& graph, const graph::Target& target)
      : graph_(graph), target_(target), readers_(SoleReaders(graph)), taken_(graph.size(), false) {}

  // From the last product to the first: where both operands of an addition are products, the later
  // one takes it, since its residual must have been computed before.
  std::vector<Chain> Run() {
    std::vector<Chain> chains;
    for (ValueId id = graph_.size() - 1; id >= 0; --id) {
      Chain chain{KindFor(graph_.node(id)), {id}};
      if (chain.kind.empty() || !target_.fused.contains(chain.kind)) continue;
      Extend(&chain);
      if (chain.nodes.size() > 1) chains.push_back(std::move(chain));
    }
    return chains;
  }

 private:
  static std::string KindFor(const Node& node) {
    if (node.rate == Rate::kCheckpoint) return "";
    if (node.op == Op::kConv2d) return graph::kConv2dEpilogue;
    if (node.op == Op::kF8Linear) return graph::kF8LinearEpilogue;
    if (node.op == Op::kF8Conv2d) return graph::kF8Conv2dEpilogue;
    return node.op == Op::kLinear ? graph::kLinearEpilogue : "";
  }

  void Extend(Chain* chain) {
    const auto next = [&] {
      const ValueId reader = readers_[chain->nodes.back()];
      return reader >= 0 && !taken_[reader] ? reader : -1;
    };
    if (const ValueId add = next(); add >= 0 && IsResidual(graph_, graph_.node(add))) {
      taken_[add] = true;
      chain->nodes.push_back(add);
    }
    if (const ValueId last = next(); last >= 0 && graph::IsActivation(graph_.node(last).op)) {
      taken_[last] = true;
      chain->nodes.push_back(last);
    }
  }

  const Graph& graph_;
  const graph::Target& target_;
  const std::vector<ValueId> readers_;
  std::vector<bool> taken_;
};

}  // namespace

absl::StatusOr<Graph> FuseEpilogues(const Graph& graph, const graph::Target& target) {
  return Fuse(graph, EpilogueSearch(graph, target).Run());
}

}  // namespace latentd::passes
