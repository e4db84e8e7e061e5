#include "core/passes/hoist_residual.h"

#include "absl/container/flat_hash_map.h"
#include "core/passes/rewrite.h"

namespace latentd::passes {
namespace {

// True if `id` is the only reader of a linear, reshapes it, and has no reader but `reader`.
bool ReshapesLinear(const Graph& graph, const std::vector<ValueId>& readers, ValueId id,
                    ValueId reader) {
  const Node& reshape = graph.node(id);
  return reshape.op == Op::kReshape && readers[id] == reader &&
         readers[reshape.operands[0]] == id && graph.node(reshape.operands[0]).op == Op::kLinear;
}

struct Hoist {
  ValueId residual;
  ValueId reshape;
};

// By the addition.
absl::flat_hash_map<ValueId, Hoist> FindHoists(const Graph& graph) {
  const std::vector<ValueId> readers = SoleReaders(graph);
  absl::flat_hash_map<ValueId, Hoist> hoists;
  for (ValueId id : graph.Select(Op::kAdd)) {
    const Node& add = graph.node(id);
    const ValueId a = add.operands[0], b = add.operands[1];
    if (add.rate == Rate::kCheckpoint || graph.node(a).shape != graph.node(b).shape) continue;
    if (ReshapesLinear(graph, readers, b, id)) {
      hoists[id] = {a, b};
    } else if (ReshapesLinear(graph, readers, a, id)) {
      hoists[id] = {b, a};
    }
  }
  return hoists;
}

Value Emit(Rewrite& rewrite, const Node& add, const Hoist& hoist) {
  GraphBuilder& builder = rewrite.builder();
  const Value linear = rewrite[rewrite.from().node(hoist.reshape).operands[0]];
  const Value flat = builder.Reshape(rewrite[hoist.residual], builder.shape(linear));
  return builder.Reshape(builder.Add(flat, linear), add.shape);
}

}  // namespace

absl::StatusOr<Graph> HoistResidual(const Graph& graph, const graph::Target& target) {
  if (!target.fused.contains(graph::kLinearEpilogue)) return graph;
  const absl::flat_hash_map<ValueId, Hoist> hoists = FindHoists(graph);
  std::vector<bool> replaced(graph.size(), false);
  for (const auto& [add, hoist] : hoists) replaced[hoist.reshape] = true;
  Rewrite rewrite(graph);
  for (ValueId id = 0; id < graph.size(); ++id) {
    if (const auto hoist = hoists.find(id); hoist != hoists.end()) {
      rewrite.Set(id, Emit(rewrite, graph.node(id), hoist->second));
    } else if (!replaced[id]) {
      rewrite.Copy(id);
    }
  }
  return std::move(rewrite).Finish();
}

}  // namespace latentd::passes
