#include "core/passes/common_subexpressions.h"

#include <algorithm>
#include <bit>

#include "absl/container/flat_hash_map.h"
#include "core/passes/rewrite.h"

namespace latentd::passes {
namespace {

// A key that equal nodes share, to find candidates by.
using Key = std::pair<Op, std::vector<ValueId>>;

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
  });
}

// REQUIRES: one op and the same operands.
bool ComputesTheSame(const Node& a, const Node& b) {
  const auto* constant_a = std::get_if<graph::ConstantAttributes>(&a.attributes);
  const auto* constant_b = std::get_if<graph::ConstantAttributes>(&b.attributes);
  // 0 and -0 are equal, and not the same.
  if (constant_a != nullptr && constant_b != nullptr) {
    return a.shape == b.shape && SameBits(constant_a->values, constant_b->values);
  }
  return a.attributes == b.attributes;
}

bool HasName(Op op) { return op == Op::kInput || op == Op::kWeight; }

}  // namespace

absl::StatusOr<Graph> MergeCommonSubexpressions(const Graph& graph, const graph::Target&) {
  Rewrite rewrite(graph);
  absl::flat_hash_map<Key, std::vector<Value>> known;
  for (ValueId id = 0; id < graph.size(); ++id) {
    Node node = rewrite.Renumbered(id);
    if (HasName(node.op)) {
      rewrite.Copy(id);
      continue;
    }
    std::vector<Value>& candidates = known[{node.op, node.operands}];
    const auto same = std::find_if(candidates.begin(), candidates.end(), [&](Value value) {
      return ComputesTheSame(rewrite.builder().node(value), node);
    });
    if (same != candidates.end()) {
      rewrite.Set(id, *same);
    } else {
      candidates.push_back(rewrite.Copy(id));
    }
  }
  return std::move(rewrite).Finish();
}

}  // namespace latentd::passes
