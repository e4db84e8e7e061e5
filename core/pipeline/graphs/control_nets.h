// The ControlNets of a server's models: each is another network beside a model, of which the graphs
// are declared when a request first names it, and kept for the next. What is loaded of it comes and
// goes in the budget as a model's does, and leaves with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
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
#include "core/adapters/catalogue/catalogue.h"
#include "core/compiler/graph_store.h"
#include "core/graph/split.h"
#include "core/networks/config/control_net_config.h"
#include "core/pipeline/graphs/graph_name.h"
#include "core/pipeline/graphs/loaded_model.h"
#include "core/pipeline/spec/control.h"
#include "core/weights/weight_set.h"

namespace latentd::pipeline {

// The graphs of one ControlNet over one model (control_graph.h), known by shape. Thread-safe.
class ControlNetGraphs {
 public:
  // INVALID_ARGUMENT names what the network wants and the file lacks. `user` is told of as whose
  // they are. `model` and `store` must outlive the result.
  static absl::StatusOr<std::shared_ptr<ControlNetGraphs>> Declare(
      std::string user, const LoadedModel& model, std::shared_ptr<const adapters::ControlNet> net,
      compiler::GraphStore& store);

  // REQUIRES: a kHint, kControlRequest or kControl. Keeps those that were found last.
  absl::StatusOr<GraphHandle> Find(const GraphName& name, ModelGraphs::IfUnknown unknown)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<ExecutablePointer> Get(const GraphHandle& graph, compiler::Purpose purpose) {
    return store_.Get(graph, purpose);
  }

  // State of those that are kept.
  ModelGraphs::Kept kept() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  ControlNetGraphs(std::string user, const LoadedModel& model,
                   std::shared_ptr<const adapters::ControlNet> net, compiler::GraphStore& store);

  absl::Status CheckWeights() const;
  absl::StatusOr<graph::SplitGraphs> Build(const GraphName& name) const;
  compiler::GraphLabel LabelOf(const GraphName& name) const;

  const std::string user_;
  const LoadedModel& model_;
  const std::shared_ptr<const adapters::ControlNet> net_;
  compiler::GraphStore& store_;
  const std::shared_ptr<weights::WeightSet> weights_;

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<GraphName, std::weak_ptr<const compiler::DeclaredGraph>> known_
      ABSL_GUARDED_BY(mutex_);
  std::deque<GraphHandle> kept_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe.
class ControlNets {
 public:
  // Nets beside those that are in use or pinned.
  static constexpr size_t kMostNets = 8;

  // Both must outlive this.
  ControlNets(adapters::Catalogue& catalogue, compiler::GraphStore& store)
      : catalogue_(catalogue), store_(store) {}

  // A number that two nets over one model have in common only if they are of one file; never 0.
  static uint64_t IdOf(const Control& control);

  using Graphs = std::shared_ptr<ControlNetGraphs>;
  // Null: it was not declared, or has left. Reads no file.
  Graphs Find(const LoadedModel& model, const Control& control) ABSL_LOCKS_EXCLUDED(mutex_);
  // Reads the file's header where it has to; errors as Catalogue::LoadControlNet's.
  absl::StatusOr<Graphs> FindOrMake(const LoadedModel& model, const Control& control)
      ABSL_LOCKS_EXCLUDED(mutex_);

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

 private:
  struct Net {
    bool in_use() const { return graphs.use_count() > 1; }

    std::string name;  // the adapter's
    std::string user;  // "base+canny", by which the store knows it
    std::string key;   // the model, and the file
    Graphs graphs;
    bool pinned = false;
  };

  Graphs FindLocked(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes out those beyond the most, for the caller to free without the lock.
  std::list<Net> Trim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(std::list<Net> nets);

  adapters::Catalogue& catalogue_;
  compiler::GraphStore& store_;
  mutable absl::Mutex mutex_;
  std::list<Net> nets_ ABSL_GUARDED_BY(mutex_);              // the one used last first
  std::vector<std::string> pinned_ ABSL_GUARDED_BY(mutex_);  // names
};

}  // namespace latentd::pipeline
