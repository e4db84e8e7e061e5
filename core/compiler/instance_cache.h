// What is loaded: instances, which are an artifact over weights of one content on one device, ready
// to run. One executable for each, however many ask at once and whoever declared it.
//
// What was the machine's fault (Backend::Load), or a lack of memory, is tried again; a failure that
// cannot change is given to who asks again, until a Get for kRetry. What came from disk and turns
// out damaged is discarded and made anew.
//
// Bounded: what graphs hold in memory, their artifacts too, leaves, least recently used first, when
// the budget is passed; never of one that is pinned, in use (somebody holds an executable) or the
// newest. What does not fit beside the rest (StoreOptions::before_load, asked with what the
// artifact says that it needs, before anything is loaded) makes room in the same way, for who
// allows it (Purpose::evict_unused_since); if even that is not enough, nothing leaves.
//
// Thread-safe. Loading and the first run happen on the thread that asks; one graph at a time is
// loaded, and one has its first run, so that two threads can be at one of these each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/backends/executable.h"
#include "core/base/clock.h"
#include "core/compiler/artifact_store.h"
#include "core/compiler/graph_spec.h"
#include "core/compiler/store_options.h"
#include "core/compiler/work_time.h"
#include "core/metrics/registry.h"

namespace latentd::compiler {

using ExecutablePointer = std::shared_ptr<backends::Executable>;

// kUnloaded and kFailed -> kLoading -> kReady, kFailed, or kUnloaded (no artifact could be had);
// kReady -> kUnloaded: evicted.
enum class InstanceState : uint8_t { kUnloaded, kLoading, kReady, kFailed };

// Of all instances of one graph.
struct InstancesStatus {
  bool loading = false;
  std::set<Digest> ready;  // by the contents of their weights
  absl::Status failure;    // of the first that failed
  int64_t executable_bytes = 0;
  int64_t arena_bytes = 0;   // that one run uses; 0 where it is not known yet
  int64_t needs_bytes = 0;   // of predictions that are kept
  absl::Duration load_time;  // of the last load, first run included
  int64_t hits = 0;
  absl::Time last_use = absl::InfinitePast();
  bool in_use = false;
};

// Whether loading may succeed the next time with the same artifact and the same weights: see
// Backend::Load for what the codes say.
bool IsTransient(const absl::Status& failure);

class InstanceCache {
 public:
  // All must outlive the cache.
  InstanceCache(ArtifactStore& artifacts, const Clock& clock, metrics::Registry& registry,
                WorkTime& time, const StoreOptions& options)
      : artifacts_(artifacts), clock_(clock), registry_(registry), time_(time), options_(options) {}

  // As GraphStore's.
  absl::StatusOr<ExecutablePointer> Get(const DeclaredGraph& graph, const Purpose& purpose)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<backends::MemoryNeeds> Predict(const DeclaredGraph& graph)
      ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t MarkWanted(absl::Span<const GraphHandle> graphs) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CheckRoom(const GraphLabel& label, const backends::MemoryNeeds& needs,
                         uint64_t evict_unused_since) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CheckRoom(const DeclaredGraph& graph, uint64_t evict_unused_since) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Freed after the lock is: that takes as long as the weights are large.
  using Leaving = std::vector<std::shared_ptr<const void>>;

  // Drops those over other weights than these, unless they are being loaded.
  void Retain(const Digest& id, const std::set<Digest>& contents, Leaving& leaving)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // From Declare to Forget, which REQUIRES that it has no instances, the cache knows the graph,
  // which all that take a DeclaredGraph require. Others do nothing for one that it does not know.
  void Declare(const GraphDefinition& graph) ABSL_LOCKS_EXCLUDED(mutex_);
  void Forget(const Digest& id) ABSL_LOCKS_EXCLUDED(mutex_);
  // The graph has a new artifact: what the old one needed, or failed for, is forgotten.
  void NoteNewArtifact(const Digest& id) ABSL_LOCKS_EXCLUDED(mutex_);
  // All that the graph has in memory, its artifact too. FAILED_PRECONDITION, reason IN_USE, unless
  // forced. Who holds an executable keeps it.
  absl::Status Evict(const Digest& id, bool force) ABSL_LOCKS_EXCLUDED(mutex_);

  InstancesStatus StatusOf(const Digest& id) const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t loads() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t hits() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Instance {
    InstanceState state = InstanceState::kUnloaded;
    ExecutablePointer executable;  // of kReady
    size_t own_bytes = 0;          // of it, from when it is loaded, before it is there
    absl::Status failure;          // of the last load
    absl::Status outcome;          // of the last try to have it, whatever it failed for
    int tries = 0;
    std::optional<backends::MemoryNeeds> needs;  // where somebody asked, or was refused

    bool in_use() const { return executable.use_count() > 1; }
  };
  struct Graph {
    GraphLabel label;
    std::map<Digest, Instance> instances;  // by the contents of their weights
    size_t arena_bytes = 0;
    absl::Duration load_time;
    int64_t hits = 0;
    absl::Time last_use = absl::InfinitePast();
    uint64_t tick = 0;  // of the last use

    int64_t executable_bytes() const;
    bool Has(bool (*what)(const Instance&)) const;
  };

  const Instance* FindInstance(const DeclaredGraph& graph) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<ExecutablePointer> GetReady(const DeclaredGraph& graph)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The executable or a failure that stands, waiting for a thread that loads it; null: this thread
  // is to load it.
  absl::StatusOr<ExecutablePointer> FindOrBegin(const GraphDefinition& graph, const Digest& weights,
                                                GetMode mode) ABSL_LOCKS_EXCLUDED(mutex_);
  ExecutablePointer Hit(Graph& graph, const Instance& instance)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Touch(Graph& graph) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<ExecutablePointer> FindAndLoad(const DeclaredGraph& graph, const Digest& weights,
                                                const Purpose& purpose)
      ABSL_LOCKS_EXCLUDED(mutex_, loading_, first_runs_);
  absl::StatusOr<ExecutablePointer> Load(const DeclaredGraph& graph, const Digest& weights,
                                         const Artifact& artifact, const Purpose& purpose)
      ABSL_LOCKS_EXCLUDED(mutex_, loading_, first_runs_);
  absl::StatusOr<backends::MemoryNeeds> NeedsOf(const DeclaredGraph& graph)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status RunOnZeros(const ExecutablePointer& executable) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(first_runs_);

  // instance_eviction.cc
  absl::Status MakeRoom(const DeclaredGraph& graph, const Digest& weights, const Artifact& artifact,
                        const Purpose& purpose) ABSL_EXCLUSIVE_LOCKS_REQUIRED(loading_)
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool HoldsMemory(const Digest& id, const Graph& graph) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool IsIdle(const Digest& id, const Graph& graph) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool MayBeEvicted(const Digest& id, const Graph& graph, uint64_t unused_since) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  Eviction EvictionOfAll(uint64_t unused_since) const ABSL_LOCKS_EXCLUDED(mutex_);
  // False: there is none.
  bool EvictOldest(const GraphLabel& for_whom, uint64_t unused_since) ABSL_LOCKS_EXCLUDED(mutex_);
  // The least recently used of those that `may` leave; end(): none.
  template <typename May>
  std::map<Digest, Graph>::iterator Oldest(May may) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Unload(Graph& graph, Leaving& leaving);
  // Down to the budget.
  // `planned_only`: of what predictions compiled, for one more of these.
  Leaving Trim(bool planned_only = false) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ArtifactStore& artifacts_;
  const Clock& clock_;
  metrics::Registry& registry_;
  WorkTime& time_;
  const StoreOptions& options_;
  absl::Mutex loading_;  // one at a time: before_load is asked with all that came before in place
  absl::Mutex first_runs_;  // one at a time: each may use all cores

  mutable absl::Mutex mutex_;                               // taken before that of artifacts_
  std::map<Digest, Graph> graphs_ ABSL_GUARDED_BY(mutex_);  // declared, by id
  uint64_t ticks_ ABSL_GUARDED_BY(mutex_) = 0;              // counts uses, to tell which was last
  int64_t loads_ ABSL_GUARDED_BY(mutex_) = 0, hits_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace latentd::compiler
