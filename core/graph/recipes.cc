#include "core/graph/recipes.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace latentd::graph {
namespace {

// The checkpoint-rate values that a faster node or an output reads, in order.
std::vector<ValueId> Frontier(const Graph& graph) {
  std::vector<bool> read(graph.size(), false);
  for (const Node& node : graph.nodes()) {
    if (node.rate == Rate::kCheckpoint) continue;
    for (ValueId operand : node.operands) read[operand] = true;
  }
  for (const Output& output : graph.outputs()) read[output.value] = true;
  std::vector<ValueId> frontier;
  for (ValueId id = 0; id < graph.size(); ++id) {
    if (read[id] && graph.node(id).rate == Rate::kCheckpoint) frontier.push_back(id);
  }
  return frontier;
}

// `value` and everything it depends on, in order.
std::vector<ValueId> Ancestors(const Graph& graph, ValueId value) {
  absl::flat_hash_set<ValueId> seen = {value};
  std::vector<ValueId> ancestors = {value};
  for (size_t next = 0; next < ancestors.size(); ++next) {
    for (ValueId operand : graph.node(ancestors[next]).operands) {
      if (seen.insert(operand).second) ancestors.push_back(operand);
    }
  }
  std::sort(ancestors.begin(), ancestors.end());
  return ancestors;
}

Graph Cut(const Graph& graph, ValueId value) {
  absl::flat_hash_map<ValueId, ValueId> renumbered;
  std::vector<Node> nodes;
  for (ValueId id : Ancestors(graph, value)) {
    Node node = graph.node(id);
    for (ValueId& operand : node.operands) operand = renumbered.at(operand);
    renumbered[id] = static_cast<ValueId>(nodes.size());
    nodes.push_back(std::move(node));
  }
  const ValueId result = static_cast<ValueId>(nodes.size()) - 1;
  return Graph(std::move(nodes), {{"result", result}});
}

}  // namespace

std::vector<Recipe> ExtractRecipes(const Graph& graph) {
  std::vector<Recipe> recipes;
  for (ValueId value : Frontier(graph)) recipes.push_back({value, Cut(graph, value)});
  return recipes;
}

const Node& ResultOf(const Graph& recipe) { return recipe.node(recipe.outputs()[0].value); }

size_t ResultBytes(const Graph& recipe) {
  const Node& result = ResultOf(recipe);
  return static_cast<size_t>(result.shape.elements() * device::SizeOf(result.dtype));
}

bool IsStored(const Graph& recipe) { return ResultOf(recipe).op == Op::kWeight; }

Graph OfInputs(const Graph& recipe) {
  std::vector<Node> nodes(recipe.nodes().begin(), recipe.nodes().end());
  for (Node& node : nodes) {
    node.rate = Rate::kStep;
    if (node.op == Op::kWeight) node.op = Op::kInput;
  }
  return {std::move(nodes), {recipe.outputs().begin(), recipe.outputs().end()}};
}

}  // namespace latentd::graph
