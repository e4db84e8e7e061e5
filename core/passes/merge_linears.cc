#include "core/passes/merge_linears.h"

#include <map>
#include <tuple>

#include "core/passes/rewrite.h"

namespace latentd::passes {
namespace {

using Group = std::vector<ValueId>;

// Elements of a merged weight: wider products are no faster, and making the weight takes its size
// in memory several times. (All keys and values of a request's text come from one operand: in SDXL
// 341 million.)
constexpr int64_t kMaxElements = int64_t{1} << 26;

bool IsMergeable(const Graph& graph, const Node& node) {
  const bool is_linear = node.op == Op::kLinear || node.op == Op::kF8Linear;
  if (!is_linear || node.rate == Rate::kCheckpoint) return false;
  for (size_t i = 1; i < node.operands.size(); ++i) {
    if (graph.node(node.operands[i]).rate != Rate::kCheckpoint) return false;
  }
  return true;
}

// Parts of `all` of at most kMaxElements, or of one linear.
std::vector<Group> Cut(const Graph& graph, const Group& all) {
  std::vector<Group> groups;
  int64_t elements = 0;
  for (ValueId id : all) {
    const int64_t more = graph.node(graph.node(id).operands[1]).shape.elements();
    if (groups.empty() || elements + more > kMaxElements) {
      groups.emplace_back();
      elements = 0;
    }
    groups.back().push_back(id);
    elements += more;
  }
  return groups;
}

// Linears that are equal in all of it can be one: what they read, the scale of 8-bit ones, the
// dtype of the result, and whether there is a bias.
using Likeness = std::tuple<ValueId, ValueId, graph::DType, size_t>;

Likeness LikenessOf(const Node& node) {
  const ValueId scale = node.op == Op::kF8Linear ? node.operands[2] : -1;
  return {node.operands[0], scale, node.dtype, node.operands.size()};
}

// For each linear that is the first of several like it: those.
std::map<ValueId, Group> GroupsByFirst(const Graph& graph) {
  std::map<Likeness, Group> by_operand;
  for (ValueId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (IsMergeable(graph, node)) by_operand[LikenessOf(node)].push_back(id);
  }
  std::map<ValueId, Group> groups;
  for (const auto& [key, all] : by_operand) {
    for (Group& group : Cut(graph, all)) {
      if (group.size() > 1) groups[group[0]] = std::move(group);
    }
  }
  return groups;
}

// The concatenation of the group's operands at `index`: weights or biases.
Value Join(Rewrite& rewrite, const Group& group, size_t index) {
  std::vector<Value> parts;
  for (ValueId id : group) parts.push_back(rewrite[rewrite.from().node(id).operands[index]]);
  return rewrite.builder().Concat(parts, 0);
}

Value Merged(Rewrite& rewrite, const Group& group) {
  GraphBuilder& builder = rewrite.builder();
  const Node& first = rewrite.from().node(group[0]);
  const Value x = rewrite[first.operands[0]], weight = Join(rewrite, group, 1);
  const size_t at = first.op == Op::kF8Linear ? 3 : 2;
  const Value bias = first.operands.size() > at ? Join(rewrite, group, at) : graph::kNone;
  if (first.op == Op::kLinear) return builder.Linear(x, weight, bias);
  return builder.F8Linear(x, weight, rewrite[first.operands[2]], bias, first.dtype);
}

void Merge(Rewrite& rewrite, const Group& group) {
  GraphBuilder& builder = rewrite.builder();
  const Value merged = Merged(rewrite, group);
  int64_t begin = 0;
  for (ValueId id : group) {
    const int64_t end = begin + rewrite.from().node(id).shape[-1];
    rewrite.Set(id, builder.Slice(merged, -1, begin, end));
    begin = end;
  }
}

}  // namespace

absl::StatusOr<Graph> MergeLinears(const Graph& graph, const graph::Target& target) {
  if (!target.merge_linears) return graph;
  const std::map<ValueId, Group> groups = GroupsByFirst(graph);
  if (groups.empty()) return graph;
  Rewrite rewrite(graph);
  // Weights first: those of the last linear of a group are needed at its first.
  for (ValueId id = 0; id < graph.size(); ++id) {
    if (graph.node(id).rate == Rate::kCheckpoint) rewrite.Copy(id);
  }
  for (ValueId id = 0; id < graph.size(); ++id) {
    if (const auto group = groups.find(id); group != groups.end()) Merge(rewrite, group->second);
    if (rewrite[id].id == graph::kNone.id) rewrite.Copy(id);
  }
  return std::move(rewrite).Finish();
}

}  // namespace latentd::passes
