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

// Everything behind the constants is guarded by the store's mutex.
struct GraphStore::Entry : std::enable_shared_from_this<Entry> {
  enum class Work : uint8_t { kNone, kLooking, kCompiling };

  Entry(const WantedGraph& wanted, GraphKey wanted_key, backends::Backend& its_backend)
      : key(std::move(wanted_key)),
        id(key.ToDigest()),
        label(wanted.label),
        graph(wanted.graph),
        graph_bytes(graph::GraphBytes(*wanted.graph)),
        precision(wanted.precision),
        backend(its_backend) {}

  // Those that somebody keeps a reference to, in order of declaration.
  std::vector<GraphRef> Users() const;
  bool Busy() const;
  bool InUse() const;
  bool HoldsMemory() const;
  int64_t executable_bytes() const;
  int64_t artifact_bytes() const;
  int64_t definition_bytes() const;
  void KeepNeeds(const Digest& weights, const backends::MemoryNeeds& its_needs);
  void ForgetNeeds();

  const GraphKey key;
  const Digest id;
  const GraphLabel label;
  const std::shared_ptr<const graph::Graph> graph;
  const size_t graph_bytes;
  const graph::Precision precision;
  backends::Backend& backend;

  std::vector<std::weak_ptr<Use>> uses;
  Work work = Work::kNone;  // of the one thread that looks for the artifact, or compiles it
  Bytes artifact;
  bool on_disk = false;     // as far as is known
  bool distrusted = false;  // what is on disk did not load, and is not read again
  bool pinned = false;
  bool forgotten = false;           // no longer one of the store's
  absl::Status failure;             // of compiling
  std::string miss;                 // why what was on disk could not be used
  std::map<Digest, Loaded> loaded;  // by the content of the weights
  // Likewise, of those that somebody asked about: what the artifact needs, or what planning came to
  // while there was none.
  std::map<Digest, backends::MemoryNeeds> needs;
  size_t needs_bytes = 0;  // that they take
  int tries = 0;           // compilations and loads that ended
  int compilations = 0;
  size_t arena_bytes = 0;
  absl::Duration compile_time, load_time;
  int64_t hits = 0;
  absl::Time last_use = absl::InfinitePast();
  uint64_t tick = 0;                  // of the last use
  std::optional<GraphState> counted;  // the state that the metric has it in
};

struct GraphStore::Use {
  Use(std::shared_ptr<Entry> its_entry, const WantedGraph& wanted)
      : entry(std::move(its_entry)), user(wanted.user), weights(wanted.weights) {}

  const std::shared_ptr<Entry> entry;
  const std::string user;
  const std::shared_ptr<const weights::WeightSet> weights;
  std::optional<Digest> content;  // of the weights, once somebody asked; guarded as above
};

}  // namespace latentd::compiler
