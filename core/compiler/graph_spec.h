// A declaration of a graph, its id and label once it is declared, and what may be done to have
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/backends/backend.h"
#include "core/base/text/digest.h"
#include "core/compiler/graph_key.h"
#include "core/compiler/graph_label.h"
#include "core/graph/graph.h"
#include "core/weights/weight_set.h"

namespace latentd::compiler {

struct GraphSpec {
  GraphLabel label;
  // Name of the graph's user: a model with what is over it; empty: the label's model.
  std::string user = {};
  std::shared_ptr<const graph::Graph> graph;  // before passes
  std::shared_ptr<const weights::WeightSet> weights;
  backends::Backend* backend = nullptr;  // null: the store's own; else e.g. the reference backend
};

// Common part of all its users. Never changes.
struct GraphDefinition {
  GraphKey key;
  Digest id;         // digest of the key
  GraphLabel label;  // label of the first declaration
  std::shared_ptr<const graph::Graph> graph;
  size_t graph_bytes;
  backends::Backend& backend;
};

// Permitted ways to get a graph.
enum class GetMode : uint8_t {
  kReady,    // only hand out what is ready; quick
  kLoad,     // load an artifact from memory or disk, never compile
  kCompile,  // compile too, unless that failed before
  kRetry,    // compile even if that failed before
};

// Why, for metrics, and for strict mode, in which only a start compiles.
enum class Reason : uint8_t { kStartup, kWarm, kColdRequest, kRetry };

struct Purpose {
  GetMode mode = GetMode::kCompile;
  Reason reason = Reason::kColdRequest;
  // Result of MarkWanted: executables that have not been used since then may be evicted if this
  // one does not fit beside them. 0: none may.
  uint64_t evict_unused_since = 0;
  // Refused with RESOURCE_EXHAUSTED where something would have to leave memory for it
  // (StoreOptions::memory_budget).
  bool displaces_nothing = false;
};

}  // namespace latentd::compiler
