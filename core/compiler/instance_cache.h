// The cache of declared and loaded graphs: each with its users, its artifact and its
// instances, executables over weights of one content on one device. One executable for each,
// however many ask at once and whichever caller declared it.
//
// A failure of the machine (Backend::Load), or a lack of memory, is tried again; a failure that
// cannot change is given to later callers, until a Get for kRetry. An artifact from disk that turns
// out damaged is discarded and made anew. A device that has failed (core/device/device_fault.h)
// says nothing of a graph: nothing is remembered or discarded for it.
//
// The first run is one of an artifact: executables over other weights run the same kernels, and
// need none of their own.
//
// Bounded: graphs in memory, with their artifacts, are evicted, least recently used first, when
// the budget is passed; never one that is pinned, in use (a caller holds an executable) or the
// newest. A graph that does not fit beside the rest (StoreOptions::before_load, asked with what the
// artifact says that it needs, before anything is loaded) evicts instances, for callers that allow
// it (Purpose::evict_unused_since); if even that is not enough, nothing is evicted. Of several
// models all instances of the one that was used least recently leave first: its weights go with the
// last of them. Those of a pinned model stay.
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
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/backends/executable.h"
#include "core/compiler/artifact_slot.h"
#include "core/compiler/graph_spec.h"
#include "core/compiler/graph_status.h"
#include "core/compiler/store_options.h"

namespace latentd::compiler {

using ExecutablePointer = std::shared_ptr<backends::Executable>;

// kUnloaded and kFailed -> kLoading -> kReady, kFailed, or kUnloaded (no artifact could be had, or
// the device has failed);
// kReady -> kUnloaded: evicted.
enum class InstanceState : uint8_t { kUnloaded, kLoading, kReady, kFailed };

// Guarded by the cache's lock.
struct Instance {
  const Digest weights;  // their content
  InstanceState state = InstanceState::kUnloaded;
  ExecutablePointer executable;                // set in kReady, and in kLoading once it is loaded
  absl::Status outcome;                        // outcome of the last try to have it
  std::optional<backends::MemoryNeeds> needs;  // set once a caller asked, or was refused
  size_t needs_bytes = 0;                      // memory of the host that these take
  uint64_t tick = 0;                           // tick of the last use
  absl::Duration load_time;                    // time of the last load, first run included
  absl::Time last_use = absl::InfinitePast();  // wall clock

  void SetNeeds(backends::MemoryNeeds known);
  size_t own_bytes() const { return executable == nullptr ? 0 : executable->info().own_bytes; }
  bool in_use() const { return state == InstanceState::kReady && executable.use_count() > 1; }
};

struct DeclaredGraph;

// All but the artifact is guarded by the cache's lock.
struct KnownGraph {
  explicit KnownGraph(std::shared_ptr<ArtifactSlot> slot) : artifact(std::move(slot)) {}

  const std::shared_ptr<ArtifactSlot> artifact;
  std::vector<std::weak_ptr<const DeclaredGraph>> users;  // in order of declaration
  std::vector<std::shared_ptr<Instance>> instances;       // one for each content of weights
  size_t arena_bytes = 0;
  absl::Duration load_time;
  int64_t hits = 0;
  absl::Time last_use = absl::InfinitePast();
  uint64_t tick = 0;  // tick of the last use
  // The artifact an executable of which has had its first run; it may be gone.
  std::weak_ptr<const Artifact> ran;

  const GraphDefinition& definition() const { return artifact->graph(); }
  std::vector<std::shared_ptr<const DeclaredGraph>> Users() const;  // users that are still held
  // The users of one instance.
  std::vector<std::string> UsersOf(const Instance& instance) const;
  bool Has(bool (*what)(const Instance&)) const;
  int64_t executable_bytes() const;
  bool HoldsMemory() const;
  // True if no thread works on it, holds it, or has pinned it.
  bool IsIdle() const;
};

// One user of a graph, with weights.
struct DeclaredGraph {
  const std::shared_ptr<KnownGraph> graph;
  const std::string user;
  const std::shared_ptr<const weights::WeightSet> weights;
  mutable std::shared_ptr<Instance> instance;  // set on first request; guarded by the cache's lock

  const GraphDefinition& definition() const { return graph->definition(); }
};

// A handle keeps a graph known to the store.
using GraphHandle = std::shared_ptr<const DeclaredGraph>;

// OK if something fits after that eviction.
using RoomCheck = absl::FunctionRef<absl::Status(const Eviction& leaves)>;

class InstanceCache {
 public:
  // Must outlive the cache.
  explicit InstanceCache(StoreServices& services) : services_(services) {}

  // A user is a model by its name. All as GraphStore's.
  void SetUserPinned(const std::string& user, bool pinned) ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsUserPinned(const std::string& user) const ABSL_LOCKS_EXCLUDED(mutex_);
  GraphHandle Declare(const GraphSpec& spec, GraphDefinition definition)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void DropUnused() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<ExecutablePointer> Get(const DeclaredGraph& graph, const Purpose& purpose)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<backends::MemoryNeeds> Predict(const DeclaredGraph& graph)
      ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t MarkWanted(absl::Span<const GraphHandle> graphs) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CheckRoom(const GraphLabel& label, const backends::MemoryNeeds& needs,
                         uint64_t evict_unused_since) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CheckRoomOnceIdle(const GraphLabel& label, const backends::MemoryNeeds& needs,
                                 absl::Span<const GraphHandle> kept) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CheckRoom(const DeclaredGraph& graph, uint64_t evict_unused_since) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Status MakeRoom(const GraphLabel& for_whom, uint64_t unused_since, RoomCheck check)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Null: it is not declared.
  std::shared_ptr<KnownGraph> Find(const Digest& id) const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<std::shared_ptr<KnownGraph>> graphs() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<GraphHandle> UsersOf(const KnownGraph& graph) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts `user`'s executable alone, where it is not null.
  GraphStatus StatusOf(const KnownGraph& graph, const DeclaredGraph* user = nullptr) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  StoreTotals totals() const ABSL_LOCKS_EXCLUDED(mutex_);

  // The graph has a new artifact: what the old one needed, or failed for, is forgotten.
  void NoteNewArtifact(KnownGraph& graph) ABSL_LOCKS_EXCLUDED(mutex_);
  // All that the graph has in memory, its artifact too; with `users`, executables that no others
  // use, and the artifact with the last. FAILED_PRECONDITION, reason IN_USE, unless forced. A
  // holder of an executable keeps it.
  absl::Status Evict(KnownGraph& graph, bool force, absl::Span<const std::string> users)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Freed after the lock is: that takes as long as the weights are large.
  using Leaving = std::vector<std::shared_ptr<const void>>;

  std::shared_ptr<KnownGraph> FindLocked(const Digest& id) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // May read gigabytes the first time. Errors as WeightSet::ContentDigest's.
  absl::StatusOr<Instance*> InstanceOf(const DeclaredGraph& graph) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<ExecutablePointer> GetReady(const DeclaredGraph& graph)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The executable or a failure that stands, waiting for a thread that loads it; null: this thread
  // is to load it.
  absl::StatusOr<ExecutablePointer> FindOrBegin(KnownGraph& graph, Instance& instance, GetMode mode)
      ABSL_LOCKS_EXCLUDED(mutex_);
  ExecutablePointer Hit(KnownGraph& graph, Instance& instance)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Touch(KnownGraph& graph, Instance* instance = nullptr) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `tried`: whether there was an artifact to load.
  absl::StatusOr<ExecutablePointer> FindAndLoad(const DeclaredGraph& graph, Instance& instance,
                                                const Purpose& purpose, bool& tried)
      ABSL_LOCKS_EXCLUDED(mutex_, loading_, first_runs_);
  absl::StatusOr<ExecutablePointer> Load(const DeclaredGraph& graph, Instance& instance,
                                         const ArtifactPointer& artifact, const Purpose& purpose)
      ABSL_LOCKS_EXCLUDED(mutex_, loading_, first_runs_);
  // As ArtifactSlot's; what the artifact needed is forgotten with it.
  bool Discard(const DeclaredGraph& graph, const ArtifactPointer& artifact, const absl::Status& why)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Needs of the instance, as they were predicted of the artifact, or are now.
  absl::StatusOr<backends::MemoryNeeds> NeedsFor(const DeclaredGraph& graph,
                                                 const Instance& instance,
                                                 const Artifact& artifact) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs it once on zeros, where no executable of that artifact ever ran. Adds the time to `took`.
  absl::Status RunFirst(KnownGraph& graph, const ArtifactPointer& artifact,
                        const ExecutablePointer& executable, absl::Duration& took)
      ABSL_LOCKS_EXCLUDED(mutex_, first_runs_);

  // instance_eviction.cc
  absl::Status MakeRoom(const DeclaredGraph& graph, Instance& instance, const Artifact& artifact,
                        const Purpose& purpose) ABSL_EXCLUSIVE_LOCKS_REQUIRED(loading_)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // RESOURCE_EXHAUSTED: with so much more the budget would be passed.
  absl::Status CheckBudget(const GraphLabel& label, size_t executable_bytes) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  size_t BytesHeld() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);  // bytes that count for the budget
  // Evictions of all instances that may leave, as asked under the lock; and of all that may make
  // room now.
  using MayLeave = absl::FunctionRef<bool(const KnownGraph& graph, const Instance& instance)>;
  Eviction EvictionOf(MayLeave may_leave) const ABSL_LOCKS_EXCLUDED(mutex_);
  Eviction EvictionOfAll(uint64_t unused_since) const ABSL_LOCKS_EXCLUDED(mutex_);
  // False: there is none.
  bool EvictOldest(const GraphLabel& for_whom, uint64_t unused_since) ABSL_LOCKS_EXCLUDED(mutex_);
  // The last use of each user's instances.
  std::map<std::string, uint64_t> LastUses() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // True if the instance is loaded and may be evicted for another one.
  bool MayMakeRoom(const KnownGraph& graph, const Instance& instance, uint64_t unused_since) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // The same of an instance that is in use now, once that is over.
  bool MayEverMakeRoom(const KnownGraph& graph, const Instance& instance) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool IsOfPinned(const KnownGraph& graph, const Instance& instance) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // An instance that makes room.
  struct Oldest {
    KnownGraph* graph = nullptr;
    Instance* instance = nullptr;
    std::string user;
  };
  Oldest FindOldest(uint64_t unused_since) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Down to the budget. `planned_only`: of what predictions compiled, for one more of these.
  void Trim(Leaving& leaving, bool planned_only = false) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  StoreServices& services_;
  absl::Mutex loading_;  // one at a time: before_load is asked with all that came before in place
  absl::Mutex first_runs_;  // one at a time: each may use all cores

  mutable absl::Mutex mutex_;  // taken before those of artifacts
  std::vector<std::shared_ptr<KnownGraph>> graphs_ ABSL_GUARDED_BY(mutex_);  // as declared
  std::set<std::string> pinned_ ABSL_GUARDED_BY(mutex_);                     // users
  uint64_t ticks_ ABSL_GUARDED_BY(mutex_) = 0;  // counts uses, to tell which was last
  int64_t loads_ ABSL_GUARDED_BY(mutex_) = 0, hits_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace latentd::compiler
