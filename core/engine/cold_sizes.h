// Sizes that are no buckets and were compiled for requests with COLD_OK: their graphs are kept, so
// that the next request finds them, up to a number of bytes. Those used least recently leave; what
// was compiled for them stays on disk.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <list>
#include <vector>

#include "core/compiler/graph_store.h"
#include "core/pipeline/picture_spec.h"

namespace latentd::engine {

class ColdSizes {
 public:
  using GraphHandles = std::vector<compiler::GraphHandle>;

  // `max_bytes` bounds the graphs as they were declared; the size that was kept last stays whatever
  // it has.
  explicit ColdSizes(size_t max_bytes) : max_bytes_(max_bytes) {}

  // What one picture of the size needs, beside what is kept for it already.
  void Keep(pipeline::Size size, const GraphHandles& graphs);
  // The size was used. OK for one that is not kept.
  void Touch(pipeline::Size size);

  size_t bytes() const;
  size_t count() const { return sizes_.size(); }

 private:
  struct Kept {
    pipeline::Size size;
    GraphHandles graphs;  // of that size only: what every size shares is kept anyway
    size_t bytes = 0;
  };

  const size_t max_bytes_;
  std::list<Kept> sizes_;  // the one used last first
};

}  // namespace latentd::engine
