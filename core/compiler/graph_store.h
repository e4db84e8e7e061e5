// Declared graphs, as callers and operators see them: declared once (cheap: nothing
// is compiled), asked for by their handles, listed and acted upon by id. Made of three parts: a
// graph's artifact (artifact_slot.h), what is loaded (instance_cache.h), and this catalogue, which
// has no state of its own.
//
// Graphs are named by their GraphKey: base and refiner that declare the same graph are two users of
// one, and of one executable where their weights' contents are equal. A graph is known for as long
// as a handle of it exists; all that is kept for it goes at the next Declare or
// DropUnused.
//
// READY means: an executable of the same artifact was run once in this process
// (StoreOptions::run_once).
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/backends/backend.h"
#include "core/base/clock.h"
#include "core/cache/disk_cache.h"
#include "core/compiler/graph_spec.h"
#include "core/compiler/graph_status.h"
#include "core/compiler/instance_cache.h"
#include "core/compiler/store_options.h"
#include "core/metrics/registry.h"

namespace latentd::compiler {

class GraphStore {
 public:
  using Options = StoreOptions;
  using Totals = StoreTotals;

  // `disk` may be null: nothing survives. All must outlive the store, and that its handles.
  GraphStore(backends::Backend& backend, const Clock& clock, metrics::Registry& registry,
             cache::DiskCache* disk, Options options);

  // The same graph for the same key (the same handle, if the weight set is the same too); adds the
  // user. REQUIRES: graph and weights.
  GraphHandle Declare(const GraphSpec& spec);
  // The same graph for another user, with other weights: it is not hashed again.
  GraphHandle DeclareOver(const GraphHandle& of, std::string user,
                          std::shared_ptr<const weights::WeightSet> weights);
  // The graph's id, as in GraphStatus.
  static std::string IdOf(const GraphHandle& graph) { return graph->definition().id.ToString(); }
  static const GraphLabel& LabelOf(const GraphHandle& graph) { return graph->definition().label; }
  // Bytes of the graph as it was declared.
  static size_t DefinitionBytesOf(const GraphHandle& graph) {
    return graph->definition().graph_bytes;
  }
  // Removes graphs that no handle is left of, with all that they hold in memory.
  void DropUnused() { instances_.DropUnused(); }

  // FAILED_PRECONDITION with reason GRAPH_COLD: not ready (or would have to be compiled) and
  // purpose.mode says that this must not be done; with reason COMPILE_FORBIDDEN after
  // ForbidCompiling. Else what compiling or loading says.
  absl::StatusOr<ExecutablePointer> Get(const GraphHandle& graph, const Purpose& purpose = {});

  // Has the graph's artifact compiled, or finds it, and loads nothing. Errors as Get's.
  absl::Status Compile(const GraphHandle& graph, const Purpose& purpose);
  // The state of the handle's own executable, whatever other users of the graph have.
  GraphStatus StatusOf(const GraphHandle& graph) const {
    return instances_.StatusOf(*graph->graph, graph.get());
  }
  // Nothing of a pinned model is evicted to make room for others.
  void SetModelPinned(const std::string& model, bool pinned) {
    instances_.SetUserPinned(model, pinned);
  }
  bool IsModelPinned(const std::string& model) const { return instances_.IsUserPinned(model); }

  const graph::Target& target() const { return backend_.target(); }

  // From now on nothing is compiled (strict mode): Get for kCompile behaves as kLoad does. But for
  // Reason::kStartup: graphs of the configuration that no request waits for may come later.
  void ForbidCompiling() { services_.compiling_forbidden = true; }

  // Memory that the graph would take, by its artifact, without loading it. It is compiled if it has
  // to be, which counts as a compilation only when it is used (artifact_slot.h). The needs are
  // remembered until there is a new artifact.
  absl::StatusOr<backends::MemoryNeeds> Predict(const GraphHandle& graph);
  // Counts as a use of those that hold memory. What Purpose::evict_unused_since takes: of one
  // request's graphs none is evicted for another.
  uint64_t MarkWanted(absl::Span<const GraphHandle> graphs) {
    return instances_.MarkWanted(graphs);
  }
  // Outcome of StoreOptions::before_load for those needs, with all that may be evicted gone.
  absl::Status CheckRoom(const GraphLabel& label, const backends::MemoryNeeds& needs,
                         uint64_t evict_unused_since) const {
    return Noted(instances_.CheckRoom(label, needs, evict_unused_since));
  }
  // The same with all gone that is in use, too: only what is pinned stays, and what is loaded of
  // `kept`.
  absl::Status CheckRoomOnceIdle(const GraphLabel& label, const backends::MemoryNeeds& needs,
                                 absl::Span<const GraphHandle> kept) const {
    return Noted(instances_.CheckRoomOnceIdle(label, needs, kept));
  }
  // Likewise for a graph; OK where it is loaded, or its needs are not known (it was never
  // predicted, and not refused before).
  absl::Status CheckRoom(const GraphHandle& graph, uint64_t evict_unused_since) const {
    return Noted(instances_.CheckRoom(*graph, evict_unused_since));
  }

  // For what is no graph: evicts what is idle, the least recently used first, until `check` says OK
  // of nothing more to leave; nothing where all of it would not be enough. The last answer. Waits
  // for no graph that is being loaded, which `check` does not see.
  absl::Status MakeRoom(const GraphLabel& for_whom, RoomCheck check) {
    return instances_.MakeRoom(for_whom, std::numeric_limits<uint64_t>::max(), check);
  }

  // Declared graphs in order of declaration, as far as is known without asking the disk: no
  // disk_bytes, and what another process took from the disk is compiled until LookAtDisk.
  std::vector<GraphStatus> Declared() const;
  // Declared graphs, as the disk is now, then what else is on it.
  std::vector<GraphStatus> List() const;
  absl::StatusOr<GraphStatus> Find(absl::string_view id) const;  // NOT_FOUND

  // FAILED_PRECONDITION: it is not compiled (reason NOT_COMPILED), or there is no disk cache
  // (NO_DISK_CACHE). OK where it is on disk already.
  absl::Status Save(absl::string_view id);
  // Loads the executables of those users, by the models' names, or of all (empty), as Get for
  // kLoad. FAILED_PRECONDITION, reason NOT_SERVED: none of them declared it.
  absl::Status Load(absl::string_view id, absl::Span<const std::string> users = {});
  // Reads the disk entry again and checks all of it. NOT_FOUND: it is not on disk; DATA_LOSS:
  // damaged, and in quarantine now; FAILED_PRECONDITION: made for another key, and what differs.
  absl::Status Verify(absl::string_view id);
  // FAILED_PRECONDITION, unless forced: pinned (reason PINNED), or in use and to leave memory
  // (IN_USE). Who holds an executable keeps it. With `users` of memory only what no other model
  // uses.
  absl::Status Evict(absl::string_view id, Tier tier, bool force,
                     absl::Span<const std::string> users = {});
  absl::Status SetPinned(absl::string_view id, bool pinned);

  // The artifact as a file (artifact.h), from memory or disk. FAILED_PRECONDITION, reason
  // NOT_COMPILED: neither.
  absl::StatusOr<std::string> Export(absl::string_view id);
  // Takes an artifact that came from elsewhere: its key, its plan against its graph, and that
  // against the declared one, if there is one, are checked, and it is written to disk (memory, if
  // there is no disk cache). DATA_LOSS: damaged; FAILED_PRECONDITION: made for another machine or
  // version, and what differs.
  absl::Status Import(const ArtifactPointer& artifact);

  Totals totals() const { return instances_.totals(); }
  // Finds out what other processes did to the disk cache, for as long as the disk takes: what
  // Declared and the metrics go by until the next time.
  void LookAtDisk();
  // Brings the metrics that count graphs and bytes up to date, without asking the disk.
  void RefreshMetrics() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using GraphPointer = std::shared_ptr<KnownGraph>;
  // The graph of an id: if it is not declared, a slot for the file on disk, without a graph.
  struct GraphEntry {
    std::shared_ptr<ArtifactSlot> artifact;
    GraphPointer graph;  // may be null

    const GraphKey& key() const { return artifact->graph().key; }
  };

  absl::StatusOr<GraphEntry> Resolve(absl::string_view id) const;
  GraphEntry Resolve(const GraphKey& key) const;
  const backends::Backend& BackendOf(const GraphKey& key) const;

  // Returns the outcome of a use of the device, after reporting a fault.
  absl::Status Noted(absl::Status outcome) const {
    services_.options.NoteOutcome(outcome);
    return outcome;
  }
  template <typename T>
  absl::StatusOr<T> Noted(absl::StatusOr<T> outcome) const {
    services_.options.NoteOutcome(outcome.status());
    return outcome;
  }
  // FAILED_PRECONDITION: an artifact with that key runs elsewhere, and what differs.
  absl::Status CheckKey(const GraphKey& key) const;
  // As Verify.
  absl::Status CheckFile(const GraphDefinition& graph) const;
  // `on_disk`: its file, as it is now; null: there is none.
  GraphStatus StatusOf(const KnownGraph& graph, const cache::EntryInfo* on_disk) const;
  GraphStatus StatusOf(const cache::EntryInfo& on_disk) const;

  backends::Backend& backend_;
  mutable StoreServices services_;
  InstanceCache instances_;

  absl::Mutex mutex_;
  // Values of the metric, by component and state.
  std::map<std::tuple<std::string, std::string, GraphState>, int> counted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::compiler
