#include "core/engine/cold_sizes.h"

#include <algorithm>

namespace latentd::engine {

using compiler::GraphStore;

void ColdSizes::Keep(pipeline::Size size, const GraphHandles& graphs) {
  Touch(size);
  if (sizes_.empty() || sizes_.front().size != size) sizes_.push_front({.size = size});
  Kept& kept = sizes_.front();
  for (const compiler::GraphHandle& graph : graphs) {
    const bool shared = GraphStore::LabelOf(graph).width == 0;
    const auto end = kept.graphs.end();
    if (shared || std::find(kept.graphs.begin(), end, graph) != end) continue;
    kept.graphs.push_back(graph);
    kept.bytes += GraphStore::DefinitionBytesOf(graph);
  }
  while (sizes_.size() > 1 && bytes() > max_bytes_) sizes_.pop_back();
}

void ColdSizes::Touch(pipeline::Size size) {
  const auto found = std::find_if(sizes_.begin(), sizes_.end(),
                                  [&](const Kept& kept) { return kept.size == size; });
  if (found != sizes_.end()) sizes_.splice(sizes_.begin(), sizes_, found);
}

size_t ColdSizes::bytes() const {
  size_t bytes = 0;
  for (const Kept& kept : sizes_) bytes += kept.bytes;
  return bytes;
}

}  // namespace latentd::engine
