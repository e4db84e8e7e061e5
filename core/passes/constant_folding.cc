#include "core/passes/constant_folding.h"

#include <algorithm>
#include <cmath>

#include "core/passes/rewrite.h"

namespace latentd::passes {
namespace {

constexpr int64_t kMaxFoldedElements = 4096;

// True if all operands of the node are literals. REQUIRES: they are values of `builder`.
bool IsFoldable(const GraphBuilder& builder, const Node& node) {
  if (graph::IsLeaf(node.op) || node.dtype != graph::DType::kF32) return false;
  if (node.shape.elements() > kMaxFoldedElements) return false;
  return std::all_of(node.operands.begin(), node.operands.end(),
                     [&](ValueId operand) { return builder.node({operand}).op == Op::kConstant; });
}

// The node and the literals that it reads, as a graph of their own.
absl::StatusOr<Graph> Alone(const GraphBuilder& builder, Node node) {
  GraphBuilder alone;
  for (ValueId& operand : node.operands) operand = alone.Append(builder.node({operand})).id;
  alone.Output("result", alone.Append(std::move(node)));
  return std::move(alone).Build();
}

bool IsNumber(const device::ConstBuffer& result) {
  const auto values = result.as<float>();
  return std::none_of(values.begin(), values.end(), [](float value) { return std::isnan(value); });
}

Value Fold(GraphBuilder& builder, Node node, const Evaluator& evaluate) {
  if (!IsFoldable(builder, node)) return builder.Append(std::move(node));
  const absl::StatusOr<Graph> alone = Alone(builder, node);
  if (!alone.ok()) return builder.Append(std::move(node));
  const absl::StatusOr<device::ConstBuffer> result = evaluate(*alone, {});
  if (!result.ok() || !IsNumber(*result)) return builder.Append(std::move(node));
  const auto values = result->as<float>();
  return builder.Constant({values.begin(), values.end()}, node.shape);
}

}  // namespace

absl::StatusOr<Graph> FoldConstants(const Graph& graph, const Evaluator& evaluate) {
  if (evaluate == nullptr) return graph;
  Rewrite rewrite(graph);
  for (ValueId id = 0; id < graph.size(); ++id) {
    rewrite.Set(id, Fold(rewrite.builder(), rewrite.Renumbered(id), evaluate));
  }
  return std::move(rewrite).Finish();
}

}  // namespace latentd::passes
