// Keeps what was compiled. Three tiers: executables, ready to run, by GraphKey and the content of
// the weights; artifacts in memory by GraphKey; artifacts in the disk cache by GraphKey.
//
// A graph is declared once (cheap: nothing is compiled) and asked for by its reference. Entries are
// named by their GraphKey: base and refiner that declare the same graph are two users of one entry,
// and of one executable where their weights' contents are equal. An entry lives as long as somebody
// keeps a reference to it; what the last one leaves behind goes at the next Declare or DropUnused.
//
// One compilation per key however many ask at once: the others wait, also those of other processes
// on the same disk cache, who then take the artifact from there. A failure is remembered with
// its reason and given to who asks again, until a Get for kRetry; but what was the machine's fault
// (Backend::LoadIf), or a lack of memory while compiling, is tried again. A compiled artifact is
// written to disk as soon as there is one. An artifact on disk that was made for another key, or is
// damaged, is a miss whose reason is logged, counted and shown; never an error.
//
// READY means: the executable was run once in this process (Options::run_once).
//
// Bounded: what entries hold in memory leaves, least recently used first, when the budget is
// passed; never of one that is pinned, in use (somebody holds an executable) or the newest. What
// does not fit beside the rest (Options::before_load) makes room in the same way, for who allows it
// (Purpose::evict_unused_since); if even that is not enough, nothing leaves.
//
// Thread-safe. Compiling, loading and the first run happen on the thread that asks; one graph at a
// time is loaded, and one has its first run, so that two threads can be at one of these each.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/backends/backend.h"
#include "core/base/clock.h"
#include "core/cache/disk_cache.h"
#include "core/compiler/compile.h"
#include "core/compiler/disk_artifacts.h"
#include "core/compiler/graph_key.h"
#include "core/compiler/graph_label.h"
#include "core/compiler/graph_state.h"
#include "core/metrics/registry.h"
#include "core/weights/weight_set.h"

namespace latentd::compiler {

struct WantedGraph {
  GraphLabel label;
  std::string user;                           // who wants it: "base", "refiner"
  std::shared_ptr<const graph::Graph> graph;  // before passes
  std::shared_ptr<const weights::WeightSet> weights;
  backends::Backend* backend = nullptr;  // null: the store's own; else e.g. the reference backend
};

// What Get may do to have the graph.
enum class Allow : uint8_t {
  kReady,    // only hand out what is ready; quick
  kLoad,     // load an artifact from memory or disk, never compile
  kCompile,  // compile too, unless that failed before
  kRetry,    // compile even if that failed before
};

// What Predict came to where it had to plan: Get takes it instead of planning anew.
struct PlannedGraph {
  CompiledGraph graph;
  absl::Duration took;
};

// Why, for metrics: startup, warm, cold_request, retry.
struct Purpose {
  Allow allow = Allow::kCompile;
  absl::string_view reason = "cold_request";
  const PlannedGraph* planned = nullptr;  // of the same graph; may be null
  // What MarkWanted returned: executables that nobody has used since then may be evicted if this
  // one does not fit beside them. 0: none may.
  uint64_t evict_unused_since = 0;
};

// One entry, as operators see it.
struct GraphInfo {
  std::string id;    // 32 hexadecimal digits
  GraphLabel label;  // of who declared it first; of an entry that is only on disk: as it was saved
  std::vector<std::string> users;        // empty: on disk, and nothing that is served wants it
  GraphState state = GraphState::kCold;  // kReady: for every user
  std::string reason;     // kFailed: why; kCold: why what was on disk could not be used
  bool loadable = false;  // kFailed: nothing would be compiled, and loading it may succeed now
  GraphKey key;
  int64_t device_bytes = 0;  // of its executables, beside arena and weights
  int64_t arena_bytes = 0;   // that one run uses; 0 where it is not known yet
  int64_t memory_bytes = 0;  // of the artifact in memory
  int64_t disk_bytes = 0;
  int compilations = 0;         // in this process, those that came to something
  absl::Duration compile_time;  // of the last, or as the artifact says
  absl::Duration load_time;     // of the last load, first run included
  int64_t hits = 0;
  absl::Time last_use = absl::InfinitePast();  // wall clock; InfinitePast: never
  bool pinned = false;
  bool in_use = false;
};

// What would leave memory: of the weight store's results, the addresses of those that nothing else
// that is loaded reads.
struct Eviction {
  absl::flat_hash_set<const void*> weights;
  int64_t arena_bytes = 0;  // by how much it shrinks
  int64_t executable_bytes = 0;
  int64_t artifact_bytes = 0;
};

class GraphStore {
 public:
  struct Use;
  using GraphRef = std::shared_ptr<Use>;  // opaque: one user of one entry
  using ExecutablePointer = std::shared_ptr<backends::Executable>;

  struct Options {
    CompileOptions compile;
    size_t memory_budget = size_t{1} << 30;  // executables' own bytes and artifacts in memory
    bool run_once = false;  // run each executable once, on zeros, when it is loaded
    bool save = true;       // write what was compiled to disk
    // How long another process that compiles the same graph is waited for before it is compiled
    // here too: longer than any compilation takes, since only a process that hangs has it so long.
    absl::Duration compile_wait = absl::Minutes(1);
    // Asked while waiting for another process; true: give up, with CANCELLED. May be empty.
    std::function<bool()> stop = {};
    // Takes what writes an artifact of so many bytes, to run it now or soon; empty: it is run at
    // once. What waits must have run before the store goes.
    std::function<void(size_t bytes, std::function<void()> write)> write = {};
    // What does not stop the service and somebody should know: an artifact that could not be used
    // or written. Called from any thread, without a lock.
    std::function<void(absl::string_view)> on_warning = {};
    // Asked before a graph is loaded, with what it would hold, and whether it would fit if
    // something left (usually nothing does); an error is what loading it comes to, unless it is
    // RESOURCE_EXHAUSTED and enough can be evicted. Called from any thread, without the store's
    // lock; must load nothing.
    std::function<absl::Status(const GraphLabel&, const backends::MemoryNeeds&, const Eviction&)>
        before_load = {};
  };

  // How much was done since the start, and what is held now.
  struct Totals {
    int64_t compilations = 0, loads = 0, hits = 0;
    // In which something was compiled, and in which something was loaded (first runs included) and
    // nothing compiled: however many threads were at it.
    absl::Duration compile_time, load_time;
    int64_t executable_bytes = 0;
    int64_t artifact_bytes = 0;    // in memory
    int64_t arena_bytes = 0;       // that the largest of what is loaded uses in a run
    int64_t definition_bytes = 0;  // graphs as they were declared, and predictions that are kept
  };

  // `disk` may be null: nothing survives. All must outlive the store.
  GraphStore(backends::Backend& backend, const Clock& clock, metrics::Registry& registry,
             cache::DiskCache* disk, Options options);
  ~GraphStore();

  // The same entry for the same key (the same reference, if the weight set is the same too); adds
  // the user. REQUIRES: graph and weights.
  GraphRef Declare(const WantedGraph& wanted) ABSL_LOCKS_EXCLUDED(mutex_);
  // The entry's id, as in GraphInfo.
  static std::string IdOf(const GraphRef& graph);
  static const GraphLabel& LabelOf(const GraphRef& graph);
  // Of the graph as it was declared.
  static size_t DefinitionBytesOf(const GraphRef& graph);
  // Entries that nobody refers to any more go now, with all that they hold in memory.
  void DropUnused() ABSL_LOCKS_EXCLUDED(mutex_);

  // FAILED_PRECONDITION with reason GRAPH_COLD: not ready (or would have to be compiled) and
  // purpose.allow says that this must not be done; with reason COMPILE_FORBIDDEN after
  // ForbidCompiling. Else what compiling or loading says.
  absl::StatusOr<ExecutablePointer> Get(const GraphRef& graph, Purpose purpose = {})
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Counts as a use of those that hold memory. What Purpose::evict_unused_since takes: of one
  // request's graphs none is evicted for another.
  uint64_t MarkWanted(absl::Span<const GraphRef> graphs) ABSL_LOCKS_EXCLUDED(mutex_);
  // What Options::before_load says of those needs with what may be evicted for them gone.
  absl::Status CheckRoom(const GraphLabel& label, const backends::MemoryNeeds& needs,
                         uint64_t evict_unused_since) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Likewise of a graph; OK where it is loaded, or it is not known what it needs (nobody has
  // predicted it, and it was not refused before).
  absl::Status CheckRoom(const GraphRef& graph, uint64_t evict_unused_since) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // From now on nothing is compiled (strict mode): Get for kCompile behaves as kLoad does.
  void ForbidCompiling() { compiling_forbidden_ = true; }

  // What the graph would hold, without loading it: from its artifact, or by planning it (which
  // counts as no compilation); `planned`, if not null, is then set to the plan, which the store
  // does not keep. The needs are remembered until the graph is compiled.
  absl::StatusOr<backends::MemoryNeeds> Predict(const GraphRef& graph,
                                                std::optional<PlannedGraph>* planned = nullptr)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Declared entries in order of declaration, as far as is known without asking the disk: no
  // disk_bytes, and what another process took from the disk is still compiled.
  std::vector<GraphInfo> Declared() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Declared entries, as the disk is now, then what else is on it.
  std::vector<GraphInfo> List() const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<GraphInfo> Find(absl::string_view id) const;  // NOT_FOUND

  // FAILED_PRECONDITION: it is not compiled (reason NOT_COMPILED), or there is no disk cache
  // (NO_DISK_CACHE). OK where it is on disk already.
  absl::Status Save(absl::string_view id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Every user's executable, as Get for kLoad. FAILED_PRECONDITION, reason NOT_SERVED: nobody
  // declared it.
  absl::Status Load(absl::string_view id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Reads the disk entry again and checks all of it. NOT_FOUND: it is not on disk; DATA_LOSS:
  // damaged, and in quarantine now; FAILED_PRECONDITION: made for another key, and what differs.
  absl::Status Verify(absl::string_view id) ABSL_LOCKS_EXCLUDED(mutex_);
  // FAILED_PRECONDITION, unless forced: pinned (reason PINNED), or in use and to leave memory
  // (IN_USE). Who holds an executable keeps it.
  absl::Status Evict(absl::string_view id, Tier tier, bool force) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status SetPinned(absl::string_view id, bool pinned) ABSL_LOCKS_EXCLUDED(mutex_);

  // The artifact's bytes, from memory or disk. FAILED_PRECONDITION, reason NOT_COMPILED: neither.
  absl::StatusOr<std::string> Export(absl::string_view id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes an artifact that came from elsewhere: all of it is checked (its plan against the graph
  // where somebody declared it; else when it is loaded), and it is written to disk (memory, if
  // there is no disk cache). Returns its id. DATA_LOSS: damaged; FAILED_PRECONDITION: made for
  // another machine or version, and what differs.
  absl::StatusOr<std::string> Import(std::string artifact) ABSL_LOCKS_EXCLUDED(mutex_);

  Totals totals() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts the declared entries by state anew, with what other processes did to the disk cache.
  void RefreshMetrics() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry;
  struct Loaded;
  struct Bytes;
  using CompileLock = std::shared_ptr<cache::KeyLock>;
  // Freed after the lock is: that takes as long as the weights are large.
  using Leaving = std::vector<std::shared_ptr<const void>>;

  // graph_store.cc: from a reference to an executable.
  std::shared_ptr<Entry> FindEntry(const Digest& id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Knows(const Digest& id) const ABSL_LOCKS_EXCLUDED(mutex_);
  GraphRef FindUse(const Entry& entry, const WantedGraph& wanted) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Digest> ContentOf(Use& use) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<ExecutablePointer> GetReady(const Use& use) ABSL_LOCKS_EXCLUDED(mutex_);
  // The executable or a failure that stands, waiting for a thread that loads it; null: this thread
  // is to load it.
  absl::StatusOr<ExecutablePointer> FindOrBegin(Entry& entry, const Digest& weights, Allow allow)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // So many more threads compile or load from now on.
  void CountThreads(int compilers, int loaders) ABSL_LOCKS_EXCLUDED(mutex_);
  ExecutablePointer Hit(Entry& entry, const Loaded& loaded) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<ExecutablePointer> Make(const Use& use, Purpose purpose)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<ExecutablePointer> LoadFrom(const Use& use, const Bytes& artifact, Purpose purpose)
      ABSL_LOCKS_EXCLUDED(mutex_, loading_, first_runs_);
  absl::StatusOr<ExecutablePointer> LoadOnly(const Use& use, const Bytes& artifact, Purpose purpose)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(loading_) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status RunOnZeros(backends::Executable& executable) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(first_runs_);

  // graph_artifacts.cc: from an entry to its artifact.
  struct Got;
  absl::StatusOr<Got> GetArtifact(Entry& entry, Purpose purpose) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<Got> FindOrCompile(Entry& entry, Purpose purpose) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CheckMayCompile(const Entry& entry, Allow allow) const ABSL_LOCKS_EXCLUDED(mutex_);
  Bytes FindOnDisk(Entry& entry) ABSL_LOCKS_EXCLUDED(mutex_);
  // Among processes; null: compile without. CANCELLED: do not compile.
  absl::StatusOr<CompileLock> LockForCompiling(const Entry& entry) const;
  absl::StatusOr<Bytes> CompileNow(Entry& entry, Purpose purpose, CompileLock lock)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Writes it, then lets go of the lock: who waits for that finds the artifact.
  void Keep(Entry& entry, const Bytes& artifact, CompileLock lock) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status WriteToDisk(Entry& entry, const std::string& bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // `bad` cannot be used: neither memory nor disk shall give it again.
  void Discard(Entry& entry, const Bytes& bad, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Cold(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // graph_verbs.cc, graph_transfer.cc: by id, declared or only on disk.
  struct Named;
  absl::StatusOr<Named> Resolve(absl::string_view id) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status TakeOutOfMemory(Entry& entry, bool force) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status RemoveFromDisk(const Named& named) ABSL_LOCKS_EXCLUDED(mutex_);
  // FAILED_PRECONDITION: an artifact with that key runs elsewhere, and what differs.
  absl::Status CheckKey(const GraphKey& key) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::string> ReadArtifact(const Named& named) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<PlannedGraph> PlanNow(const Entry& entry) const;
  absl::StatusOr<backends::MemoryNeeds> PredictAnew(const Use& use,
                                                    std::optional<PlannedGraph>* planned) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<backends::MemoryNeeds> NeedsOf(const Use& use, absl::string_view artifact) const;
  absl::Status CheckContent(const std::string& artifact, const Named& named) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  void TakeIn(Entry& entry, std::string artifact) ABSL_LOCKS_EXCLUDED(mutex_);

  // graph_budget.cc: what leaves memory.
  void Touch(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeOut(Entry& entry, Leaving& leaving) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeOutExecutables(Entry& entry, Leaving& leaving) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropUnwanted(Entry& entry, Leaving& leaving) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Entries that nobody refers to any more.
  Leaving Forget() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Leaving Trim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t HeldBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // graph_eviction.cc: room for what is to be loaded.
  absl::Status MakeRoom(const Use& use, const backends::MemoryNeeds& needs, Purpose purpose)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(loading_) ABSL_LOCKS_EXCLUDED(mutex_);
  bool MayBeEvicted(const Entry& entry, uint64_t unused_since) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Eviction EvictionOfAll(uint64_t unused_since) const ABSL_LOCKS_EXCLUDED(mutex_);
  // False: there is none.
  bool EvictOldest(const GraphLabel& for_whom, uint64_t unused_since) ABSL_LOCKS_EXCLUDED(mutex_);

  // graph_listing.cc: what an entry looks like.
  absl::Status FailureOf(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  GraphState StateOf(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Brings the metrics that count entries and bytes up to date.
  void Publish(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Uncount(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  GraphInfo InfoOf(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  GraphInfo InfoOf(const cache::EntryInfo& on_disk) const;
  std::vector<cache::EntryInfo> SyncWithDisk() const ABSL_LOCKS_EXCLUDED(mutex_);
  void CountLookup(const Entry& entry, const char* result);
  void Warn(absl::string_view what) const;

  backends::Backend& backend_;
  const Clock& clock_;
  metrics::Registry& registry_;
  DiskArtifacts disk_;
  const Options options_;
  std::atomic<bool> compiling_forbidden_ = false;
  absl::Mutex loading_;  // one at a time: before_load is asked with all that came before in place
  absl::Mutex first_runs_;  // one at a time: each may use all cores

  mutable absl::Mutex mutex_;
  std::vector<std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);  // as they were declared
  uint64_t ticks_ ABSL_GUARDED_BY(mutex_) = 0;  // counts uses, to tell which was last
  Totals totals_ ABSL_GUARDED_BY(mutex_);
  // Threads at each, for the times among the totals, which have what was before `counted_since_`.
  int compilers_ ABSL_GUARDED_BY(mutex_) = 0, loaders_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time counted_since_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::compiler
