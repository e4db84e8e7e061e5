// What GraphStore knows of one key, and of who uses it. For the store's own files only.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/compiler/graph_store.h"
#include "core/graph/graph_bytes.h"

namespace latentd::compiler {

// Whether loading may succeed the next time with the same artifact and the same weights: see
// Backend::LoadIf for what the codes say.
bool IsTransient(const absl::Status& failure);

// An artifact in memory. Copies share it.
struct GraphStore::Bytes {
  std::shared_ptr<const std::string> bytes;  // null: none
  bool made_here = false;  // by this process; else it came from the disk or from elsewhere
};

struct GraphStore::Got {
  Bytes artifact;
  const char* source;  // of the time metric: compile, disk_load, memory_load
};

// An executable over weights of one content.
struct GraphStore::Loaded {
  ExecutablePointer executable;  // null: not there
  size_t own_bytes = 0;          // of it, from when it is loaded, before it is there
  bool loading = false;
  absl::Status failure;  // of the last time that it was loaded

  bool in_use() const { return executable.use_count() > 1; }
};

// What an id stands for.
struct GraphStore::Named {
  GraphKey key;
  std::shared_ptr<Entry> entry;  // null: only on disk
  bool pinned = false;
};

// Guarded by the mutex of its store. The analysis of locks takes that of any store for it.
struct GraphStore::Entry : std::enable_shared_from_this<Entry> {
  enum class Work : uint8_t { kNone, kLooking, kCompiling };

  Entry(const WantedGraph& wanted, GraphKey wanted_key, backends::Backend& its_backend)
      : key(std::move(wanted_key)),
        id(key.ToDigest()),
        label(wanted.label),
        graph(wanted.graph),
        graph_bytes(graph::GraphBytes(*wanted.graph)),
        backend(its_backend) {}

  // Those that somebody keeps a reference to, in order of declaration.
  std::vector<GraphRef> Users() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(&GraphStore::mutex_);
  bool Busy() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(&GraphStore::mutex_);
  bool InUse() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(&GraphStore::mutex_);
  bool HoldsMemory() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(&GraphStore::mutex_);
  bool HoldsExecutable() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(&GraphStore::mutex_);
  // Of its executables, in the weight store.
  void AddWeights(absl::flat_hash_set<const void*>& weights) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(&GraphStore::mutex_);
  int64_t executable_bytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(&GraphStore::mutex_);
  int64_t artifact_bytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(&GraphStore::mutex_);
  int64_t definition_bytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(&GraphStore::mutex_);
  void KeepNeeds(const Digest& weights, const backends::MemoryNeeds& its_needs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(&GraphStore::mutex_);
  void ForgetNeeds() ABSL_EXCLUSIVE_LOCKS_REQUIRED(&GraphStore::mutex_);

  const GraphKey key;
  const Digest id;
  const GraphLabel label;
  const std::shared_ptr<const graph::Graph> graph;
  const size_t graph_bytes;
  backends::Backend& backend;

  std::vector<std::weak_ptr<Use>> uses ABSL_GUARDED_BY(&GraphStore::mutex_);
  // Of the one thread that looks for the artifact, or compiles it.
  Work work ABSL_GUARDED_BY(&GraphStore::mutex_) = Work::kNone;
  Bytes artifact ABSL_GUARDED_BY(&GraphStore::mutex_);
  bool on_disk ABSL_GUARDED_BY(&GraphStore::mutex_) = false;  // as far as is known
  // What is on disk did not load, and is not read again.
  bool distrusted ABSL_GUARDED_BY(&GraphStore::mutex_) = false;
  bool pinned ABSL_GUARDED_BY(&GraphStore::mutex_) = false;
  // No longer one of the store's.
  bool forgotten ABSL_GUARDED_BY(&GraphStore::mutex_) = false;
  absl::Status failure ABSL_GUARDED_BY(&GraphStore::mutex_);  // of compiling
  // Why what was on disk could not be used.
  std::string miss ABSL_GUARDED_BY(&GraphStore::mutex_);
  // By the content of the weights.
  std::map<Digest, Loaded> loaded ABSL_GUARDED_BY(&GraphStore::mutex_);
  // Likewise, of those that somebody asked about: what the artifact needs, or what planning came to
  // while there was none.
  std::map<Digest, backends::MemoryNeeds> needs ABSL_GUARDED_BY(&GraphStore::mutex_);
  // That they take.
  size_t needs_bytes ABSL_GUARDED_BY(&GraphStore::mutex_) = 0;
  // Compilations and loads that ended.
  int tries ABSL_GUARDED_BY(&GraphStore::mutex_) = 0;
  int compilations ABSL_GUARDED_BY(&GraphStore::mutex_) = 0;
  size_t arena_bytes ABSL_GUARDED_BY(&GraphStore::mutex_) = 0;
  absl::Duration compile_time ABSL_GUARDED_BY(&GraphStore::mutex_);
  absl::Duration load_time ABSL_GUARDED_BY(&GraphStore::mutex_);
  int64_t hits ABSL_GUARDED_BY(&GraphStore::mutex_) = 0;
  absl::Time last_use ABSL_GUARDED_BY(&GraphStore::mutex_) = absl::InfinitePast();
  uint64_t tick ABSL_GUARDED_BY(&GraphStore::mutex_) = 0;  // of the last use
  // The state that the metric has it in.
  std::optional<GraphState> counted ABSL_GUARDED_BY(&GraphStore::mutex_);
};

struct GraphStore::Use {
  Use(std::shared_ptr<Entry> its_entry, const WantedGraph& wanted)
      : entry(std::move(its_entry)), user(wanted.user), weights(wanted.weights) {}

  const std::shared_ptr<Entry> entry;
  const std::string user;
  const std::shared_ptr<const weights::WeightSet> weights;
  // Of the weights, once somebody asked.
  std::optional<Digest> content ABSL_GUARDED_BY(&GraphStore::mutex_);
};

}  // namespace latentd::compiler
