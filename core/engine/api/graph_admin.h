// Operators' work on compiled graphs and memory: the engine's side of latent.v1.GraphCache and
// of the reports in latent.v1.Admin. Plain data; no tensor, no proto.
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
#include "core/pipeline/spec/adapter.h"
#include "core/pipeline/spec/model_table.h"
#include "core/pipeline/spec/picture_spec.h"

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

struct MemoryPrediction {
  int64_t weights = 0, arena = 0, state = 0, executables = 0;
  int64_t total() const { return weights + arena + state + executables; }
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

struct ComponentMemory {
  std::string model;  // a UNet's model, since each has its own; else empty: see `users`
  std::string component;
  int64_t bytes = 0;               // results that this component uses
  int64_t shared_bytes = 0;        // the part of `bytes` that another component or model uses too
  std::vector<std::string> users;  // "base", "refiner"
};

// Memory of a device that has its own.
struct DeviceMemoryReport {
  std::string name;
  int64_t total_bytes = 0, free_bytes = 0;  // as its driver says
  int64_t held_bytes = 0;                   // counted by latentd there: by kind in MemoryReport
  int64_t idle_bytes = 0;                   // kept by latentd for reuse
  // Other memory in use: the driver's own (contexts, modules, libraries' handles), what latentd
  // rounds up, other processes'.
  int64_t other_bytes = 0;
};

// Weights, kept tensors, arena, state and executables lie on the device, all else on the host: one
// memory where the device has none of its own.
struct MemoryReport {
  std::vector<ComponentMemory> weights;
  int64_t weight_bytes = 0;  // held now, each result counted once
  int64_t mapped_bytes = 0;  // the part of it in pages of files, which the kernel can drop
  // Stored tensors that further sets of LoRAs are merged into; dropped before anything else is.
  int64_t kept_tensor_bytes = 0;
  int64_t arena_bytes = 0;
  int64_t state_bytes = 0;  // pictures in flight; what copies take on the host is in it
  int64_t executable_bytes = 0;

  int64_t result_bytes = 0;         // finished pictures that wait to be encoded or read
  int64_t artifact_bytes = 0;       // compiled graphs kept in memory, or until they are on disk
  int64_t definition_bytes = 0;     // graphs as they were declared, before they are compiled
  int64_t waiting_image_bytes = 0;  // init images and latents of requests
  // Memory pinned by the device's driver for copies, used or idle: of it are results, and state's
  // part on the host.
  int64_t pinned_bytes = 0;
  int64_t allocator_bytes = 0;  // taken by malloc from the system, in use or not
  int64_t allocator_free_bytes = 0;
  int64_t resident_bytes = 0;  // resident set of the process, by the kernel
  int64_t peak_resident_bytes = 0;
  int64_t host_available_bytes = 0;  // memory that the machine and the cgroup still give

  // Limit of what the device holds, and of all where it has no own memory. Else the host has no
  // budget: MemoryBudget::kReserve of it stay free.
  int64_t budget_bytes = 0;
  int64_t available_bytes = 0;              // memory that the device still gives
  MemoryPrediction predicted;               // the configured buckets' need
  std::vector<DeviceMemoryReport> devices;  // none: the device has no memory of its own

  int64_t on_device() const {
    return weight_bytes + kept_tensor_bytes + arena_bytes + state_bytes + executable_bytes;
  }
  int64_t on_host() const {
    return result_bytes + artifact_bytes + definition_bytes + waiting_image_bytes;
  }
};

// A model that requests can name.
struct ModelStatus {
  std::string name;
  std::string checkpoint;
  std::string family;
  pipeline::Residency residency = pipeline::Residency::kReady;
  bool pinned = false;
  bool loaded = false;               // a device has all that images of one of its buckets need
  std::vector<std::string> devices;  // "device 0": these, where there are several
  int graphs_ready = 0, graphs_total = 0;  // graphs of its buckets that images need, on that device
  absl::Time last_use = absl::InfinitePast();  // wall clock
};

// An adapter below --adapters, served or not.
struct AdapterStatus {
  pipeline::AdapterFacts facts;
  bool pinned = false;
  bool loaded = false;  // a device has weights that it is merged into
  int sets = 0;         // sets with it that are kept, by the models and weights of requests
  absl::Time last_use = absl::InfinitePast();  // wall clock
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

  // The models that draw, in the order of the table.
  virtual absl::StatusOr<std::vector<ModelStatus>> ListModels() const = 0;
  // NOT_FOUND, reason NO_SUCH_MODEL, names those that there are.
  virtual absl::Status PinModel(const std::string& name, bool pinned) = 0;

  // Adapters as their folder has them now, in the order of their names; none without --adapters.
  // Reads what is new there.
  virtual absl::StatusOr<std::vector<AdapterStatus>> ListAdapters() = 0;
  // Reads all of it, for each model that it is for, and says what is wrong with it:
  // FAILED_PRECONDITION, reason ADAPTER_UNUSABLE. NOT_FOUND, reason NO_SUCH_ADAPTER, as of the
  // following.
  virtual absl::Status LoadAdapter(const std::string& name) = 0;
  // Weights that it is merged into leave memory. FAILED_PRECONDITION, reason IN_USE.
  virtual absl::Status EvictAdapter(const std::string& name) = 0;
  // These weights leave for no others.
  virtual absl::Status PinAdapter(const std::string& name, bool pinned) = 0;

  virtual MemoryReport memory() const = 0;
};

}  // namespace latentd::engine
