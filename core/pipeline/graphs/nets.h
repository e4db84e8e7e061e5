// Networks beside a server's models: ControlNets, and the image encoders and projections of
// IP-Adapters. The graphs of each are declared when a request first names it, and kept for the
// next. What is loaded of it comes and goes in the budget as a model's does, and leaves with it.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/compiler/graph_label.h"
#include "core/compiler/graph_store.h"
#include "core/graph/graph.h"
#include "core/pipeline/graphs/graph_name.h"
#include "core/pipeline/graphs/loaded_model.h"
#include "core/weights/weight_set.h"

namespace latentd::pipeline {

// The graphs of one network beside one model, known by shape. Thread-safe.
class NetGraphs {
 public:
  virtual ~NetGraphs() = default;
  NetGraphs(const NetGraphs&) = delete;
  NetGraphs& operator=(const NetGraphs&) = delete;

  // REQUIRES: it is one of the network's. Keeps those that were found last.
  absl::StatusOr<GraphHandle> Find(const GraphName& name, ModelGraphs::IfUnknown unknown)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<ExecutablePointer> Get(const GraphHandle& graph, compiler::Purpose purpose) {
    return store_.Get(graph, purpose);
  }

  // State of those that are kept.
  ModelGraphs::Kept kept() const ABSL_LOCKS_EXCLUDED(mutex_);

 protected:
  // `user` is told of as whose they are. `model` and `store` must outlive this.
  NetGraphs(std::string user, const LoadedModel& model,
            std::shared_ptr<const weights::WeightSet> weights, compiler::GraphStore& store);

  const LoadedModel& model() const { return model_; }
  const weights::WeightSet& weights() const { return *weights_; }

 private:
  virtual absl::StatusOr<graph::Graph> Build(const GraphName& name) const = 0;
  virtual compiler::GraphLabel LabelOf(const GraphName& name) const = 0;

  const std::string user_;
  const LoadedModel& model_;
  const std::shared_ptr<const weights::WeightSet> weights_;
  compiler::GraphStore& store_;

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<GraphName, std::weak_ptr<const compiler::DeclaredGraph>> known_
      ABSL_GUARDED_BY(mutex_);
  std::deque<GraphHandle> kept_ ABSL_GUARDED_BY(mutex_);
};

// A list of such networks by the adapters that they are. Thread-safe.
class Nets {
 public:
  // Networks beside those that are in use or pinned.
  static constexpr size_t kMostNets = 8;

  // `store` must outlive this.
  explicit Nets(compiler::GraphStore& store) : store_(store) {}

  using Graphs = std::shared_ptr<NetGraphs>;
  // State of those of that name, over whichever models.
  struct Use {
    int nets = 0;
    bool loaded = false;
    absl::Time last_use = absl::InfinitePast();
  };
  Use UseOf(absl::string_view name) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Drops those that no image is drawn with; false: some stays.
  bool Evict(absl::string_view name) ABSL_LOCKS_EXCLUDED(mutex_);
  // Weights of pinned ones leave for no others.
  void SetPinned(absl::string_view name, bool pinned) ABSL_LOCKS_EXCLUDED(mutex_);

 protected:
  // An adapter as a request was resolved for it, over a model.
  struct Place {
    const std::string& model;
    const std::string& name;
    const std::string& stamp;

    std::string key() const;
    std::string user() const;  // "base+canny", by which the store knows it
  };
  // Null: it was not declared, or has left. Reads no file.
  Graphs Find(const Place& place) ABSL_LOCKS_EXCLUDED(mutex_);
  // Calls `declare` where it is not there.
  absl::StatusOr<Graphs> FindOrMake(const Place& place,
                                    const std::function<absl::StatusOr<Graphs>()>& declare)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Net {
    bool in_use() const { return graphs.use_count() > 1; }

    std::string name;  // the adapter's
    std::string user;
    std::string key;
    Graphs graphs;
    bool pinned = false;
  };

  Graphs FindLocked(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes out those beyond the most, for the caller to free without the lock.
  std::list<Net> Trim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(std::list<Net> nets);

  compiler::GraphStore& store_;
  mutable absl::Mutex mutex_;
  std::list<Net> nets_ ABSL_GUARDED_BY(mutex_);              // the one used last first
  std::vector<std::string> pinned_ ABSL_GUARDED_BY(mutex_);  // names
};

}  // namespace latentd::pipeline
