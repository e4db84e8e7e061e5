#include "core/graph/graph_bytes.h"

#include <variant>
#include <vector>

namespace latentd::graph {
namespace {

template <typename T>
size_t HeapBytes(const std::vector<T>& values) {
  return values.capacity() * sizeof(T);
}

size_t HeapBytes(const Attributes& attributes) {
  if (const auto* constant = std::get_if<ConstantAttributes>(&attributes)) {
    return HeapBytes(constant->values);
  }
  if (const auto* permute = std::get_if<PermuteAttributes>(&attributes)) {
    return HeapBytes(permute->order);
  }
  if (const auto* fused = std::get_if<FusedAttributes>(&attributes)) {
    return fused->kind.capacity() + (fused->body != nullptr ? GraphBytes(*fused->body) : 0);
  }
  return 0;
}

}  // namespace

size_t GraphBytes(const Graph& graph) {
  size_t bytes = sizeof(Graph);
  for (const Node& node : graph.nodes()) {
    bytes += sizeof(Node) + HeapBytes(node.operands) + HeapBytes(node.shape.dims()) +
             HeapBytes(node.attributes) + node.name.capacity();
  }
  for (const Output& output : graph.outputs()) bytes += sizeof(Output) + output.name.capacity();
  return bytes;
}

}  // namespace latentd::graph
