// A graph that somebody wants, what it is called once it is declared, and what may be done to have
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/backends/backend.h"
#include "core/base/digest.h"
#include "core/compiler/graph_key.h"
#include "core/compiler/graph_label.h"
#include "core/graph/graph.h"
#include "core/weights/weight_set.h"

namespace latentd::compiler {

struct GraphSpec {
  GraphLabel label;
  std::string user;                           // who wants it: "base", "refiner"
  std::shared_ptr<const graph::Graph> graph;  // before passes
  std::shared_ptr<const weights::WeightSet> weights;
  backends::Backend* backend = nullptr;  // null: the store's own; else e.g. the reference backend
};

// What its users have in common. Never changes.
struct GraphDefinition {
  GraphKey key;
  Digest id;         // of the key
  GraphLabel label;  // of who declared it first
  std::shared_ptr<const graph::Graph> graph;
  size_t graph_bytes;
  backends::Backend& backend;
};

// One user of a definition, with weights. Thread-safe.
class DeclaredGraph {
 public:
  DeclaredGraph(std::shared_ptr<const GraphDefinition> definition, const GraphSpec& spec)
      : definition_(std::move(definition)), user_(spec.user), weights_(spec.weights) {}

  const GraphDefinition& definition() const { return *definition_; }
  const std::string& user() const { return user_; }
  const std::shared_ptr<const weights::WeightSet>& weights() const { return weights_; }

  // The digest of the weights' contents, once somebody asked for it.
  std::optional<Digest> known_content() const {
    absl::MutexLock lock(&mutex_);
    return content_;
  }
  // May read gigabytes the first time. Errors as WeightSet::ContentDigest's.
  absl::StatusOr<Digest> Content() const {
    if (const std::optional<Digest> known = known_content()) return *known;
    const absl::StatusOr<Digest> content = weights_->ContentDigest(*definition_->graph);
    absl::MutexLock lock(&mutex_);
    if (content.ok()) content_ = *content;
    return content;
  }

 private:
  const std::shared_ptr<const GraphDefinition> definition_;
  const std::string user_;
  const std::shared_ptr<const weights::WeightSet> weights_;
  mutable absl::Mutex mutex_;
  mutable std::optional<Digest> content_ ABSL_GUARDED_BY(mutex_);
};

// A graph is known to the store for as long as somebody has one.
using GraphHandle = std::shared_ptr<const DeclaredGraph>;

// What may be done to have a graph.
enum class GetMode : uint8_t {
  kReady,    // only hand out what is ready; quick
  kLoad,     // load an artifact from memory or disk, never compile
  kCompile,  // compile too, unless that failed before
  kRetry,    // compile even if that failed before
};

// Why, for metrics.
enum class Reason : uint8_t { kStartup, kWarm, kColdRequest, kRetry };

struct Purpose {
  GetMode mode = GetMode::kCompile;
  Reason reason = Reason::kColdRequest;
  // What MarkWanted returned: executables that nobody has used since then may be evicted if this
  // one does not fit beside them. 0: none may.
  uint64_t evict_unused_since = 0;
};

}  // namespace latentd::compiler
