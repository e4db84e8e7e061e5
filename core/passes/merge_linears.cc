#include "core/passes/merge_linears.h"

#include <map>

#include "core/passes/rewrite.h"

namespace latentd::passes {
namespace {

using Group = std::vector<ValueId>;

// Elements of a merged weight: wider products are no faster, and making the weight takes its size
// in memory several times. (All keys and values of a request's text come from one operand: in SDXL
// 341 million.)
constexpr int64_t kMaxElements = int64_t{1} << 26;

bool IsMergeable(const Graph& graph, const Node& node) {
  if (node.op != Op::kLinear || node.rate == Rate::kCheckpoint) return false;
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

// For each linear that is the first of several with one operand and all or none with a bias: those.
std::map<ValueId, Group> GroupsByFirst(const Graph& graph) {
  std::map<std::pair<ValueId, size_t>, Group> by_operand;
  for (ValueId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (IsMergeable(graph, node))
      by_operand[{node.operands[0], node.operands.size()}].push_back(id);
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

void Merge(Rewrite& rewrite, const Group& group) {
  GraphBuilder& builder = rewrite.builder();
  const Node& first = rewrite.from().node(group[0]);
  const Value weight = Join(rewrite, group, 1);
  const Value bias = first.operands.size() > 2 ? Join(rewrite, group, 2) : graph::kNone;
  const Value merged = builder.Linear(rewrite[first.operands[0]], weight, bias);
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
