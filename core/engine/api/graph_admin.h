// A GraphAdmin does operators' work on compiled graphs: the engine's side of latent.v1.GraphCache.
// Plain data; no tensor, no proto.
//
// Thread-safe: every method may be called from any thread once the engine's state has left
// kLoading (before, they return UNAVAILABLE with reason LOADING). Warm, Load and Verify take
// as long as their work; the others return quickly.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/compiler/graph_state.h"
#include "core/engine/api/memory_report.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::engine {

using CacheTier = compiler::Tier;
using GraphState = compiler::GraphState;

// True if it can be loaded without being compiled first.
inline bool IsCompiled(GraphState state) {
  return state == GraphState::kCompiled || state == GraphState::kLoading ||
         state == GraphState::kReady;
}

struct KeyField {
  std::string name;  // "graph", "options", "sources", "backend", "fingerprint"
  std::string value;
};

struct GraphEntry {
  std::string id;
  std::string model;  // the model that declared it first
  std::string component;
  std::string part;
  pipeline::Size bucket;  // 0x0: serves every bucket
  int rows = 1;
  bool fallback = false;
  std::string precision;           // "fp32", "bf16", "fp16", "fp8"
  std::vector<std::string> users;  // models
  GraphState state = GraphState::kCold;
  std::string reason;
  std::vector<KeyField> key;
  int64_t device_bytes = 0, arena_bytes = 0, memory_bytes = 0, disk_bytes = 0;
  absl::Duration compile_time, load_time;
  int64_t hits = 0;
  absl::Time last_use;  // InfinitePast: never
  bool pinned = false;
  bool in_use = false;
};

// Selection of graphs: all, or those that any of ids, components and buckets names; a bucket means
// every graph that it needs. Of these `models` keeps those that one of the models uses; alone, of
// all. NOT_FOUND names an id, bucket or model that is not there. A caller with a client's selector
// checks its form: that it names something, and only components that there are.
struct GraphSelector {
  bool all = false;
  std::vector<std::string> ids;  // or unambiguous beginnings
  std::vector<std::string> models = {};
  std::vector<std::string> components;
  std::vector<pipeline::Size> buckets;

  // Selects by model and nothing else.
  bool only_models() const {
    return !all && !models.empty() && ids.empty() && components.empty() && buckets.empty();
  }
};

// Outcome for one entry. An entry's failure is its own: the others go on.
struct EntryResult {
  std::string id;
  std::string model;
  std::string component;
  pipeline::Size bucket;
  absl::Status status;
  std::string unused;  // after an import that worked: why no bucket that is served needs the graph
};

// One line of progress: of `done` of `total` graphs, the one that was just dealt with.
struct WarmProgress {
  EntryResult entry;
  int done = 0, total = 0;
  bool compiled = false;  // else loaded, or ready before
  absl::Duration duration;
};

struct WarmOutcome {
  int compiled = 0, loaded = 0, ready_before = 0, failed = 0;
  MemoryPrediction predicted;  // the selected buckets' need, with everything that they share
};

class GraphAdmin {
 public:
  virtual ~GraphAdmin() = default;

  virtual absl::StatusOr<std::vector<GraphEntry>> List(const GraphSelector& selector) const = 0;
  virtual absl::StatusOr<GraphEntry> Find(const std::string& id) const = 0;

  // Compiles (or loads) what is missing, a graph at a time on the engine's preparing thread; calls
  // `progress` from that thread, which must not block. What failed before is tried again. Cancelled
  // (`progress` returns false): what is queued stops, the running compilation finishes and is
  // written. `dry_run` only predicts. In strict mode what would have to be compiled is that graph's
  // own failure, FAILED_PRECONDITION with reason COMPILE_FORBIDDEN.
  virtual absl::StatusOr<WarmOutcome> Warm(
      const GraphSelector& selector, bool dry_run,
      const std::function<bool(const WarmProgress&)>& progress) = 0;

  // Writes what is compiled and not on disk yet. FAILED_PRECONDITION names every selected graph
  // that is not compiled, and then nothing is written.
  virtual absl::StatusOr<std::vector<EntryResult>> Save(const GraphSelector& selector) = 0;
  // Never compiles.
  virtual absl::StatusOr<std::vector<EntryResult>> Load(const GraphSelector& selector) = 0;
  virtual absl::StatusOr<std::vector<EntryResult>> Verify(const GraphSelector& selector) = 0;
  // Evicting and unpinning a bucket leave alone what another one shares and still needs: one that
  // is not selected, and of whose own graphs one is in that tier, or pinned.
  virtual absl::StatusOr<std::vector<EntryResult>> Evict(const GraphSelector& selector,
                                                         CacheTier tier, bool force) = 0;
  virtual absl::StatusOr<std::vector<EntryResult>> SetPinned(const GraphSelector& selector,
                                                             bool pinned) = 0;

  // An artifact at a time; `take` returns false to stop.
  virtual absl::Status Export(const GraphSelector& selector,
                              const std::function<bool(std::string artifact)>& take) = 0;
  // DATA_LOSS. What was made for another machine or version is that graph's own
  // FAILED_PRECONDITION; one that no served bucket needs is imported, and the result says so. The
  // caller checks whether a client may import graphs, and how large they are.
  virtual absl::StatusOr<EntryResult> Import(std::string artifact) = 0;
};

}  // namespace latentd::engine
