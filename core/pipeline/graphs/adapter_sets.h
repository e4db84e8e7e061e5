// The graphs of a model for sets of LoRAs that requests name: the model's own over merged weights
// (core/adapters/lora/merge_loras.h). A set costs the memory of the weights that it changes, which
// go and come as those of a model do, and no compilation. Where steps have paths, a set that fits
// them (FitPaths) has them in the place of merged weights of the steps: it costs their memory while
// it is kept, and its images share steps with those of other such sets.
//
// Sets that no request uses are kept for the next, the one used least recently leaves first; what
// is loaded for one leaves with it.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/compiler/graph_store.h"
#include "core/pipeline/graphs/control_nets.h"
#include "core/pipeline/graphs/ip_adapters.h"
#include "core/pipeline/graphs/loaded_model.h"
#include "core/pipeline/spec/request/adapter.h"

namespace latentd::pipeline {

class AdapterSets {
 public:
  // Sets beside those that are in use or pinned. Each holds its LoRAs in memory of the host.
  static constexpr size_t kMostSets = 16;

  // Both must outlive this.
  AdapterSets(adapters::Catalogue& catalogue, compiler::GraphStore& store)
      : catalogue_(catalogue),
        store_(store),
        control_nets_(catalogue, store),
        ip_adapters_(catalogue, store) {}

  adapters::Catalogue& catalogue() const { return catalogue_; }
  // ControlNets and IP-Adapters of the same folder, which no set has: they change no weight. Use,
  // eviction and pins of an adapter below are theirs too.
  ControlNets& control_nets() { return control_nets_; }
  IpAdapters& ip_adapters() { return ip_adapters_; }

  // A number that two sets of one model have in common only if they are the same; never 0.
  static uint64_t IdOf(absl::Span<const Adapter> adapters);

  using Graphs = std::shared_ptr<ModelGraphs>;
  // Null: it was not made, or has left. Reads no file.
  Graphs Find(const LoadedModel& model, absl::Span<const Adapter> adapters)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Reads the LoRAs where it has to; errors as Catalogue::Load's.
  absl::StatusOr<Graphs> FindOrMake(const LoadedModel& model, absl::Span<const Adapter> adapters)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // State of the sets with that adapter.
  struct Use {
    int sets = 0;         // or networks
    bool loaded = false;  // a device has the UNet's weights of one, or those of the network
    absl::Time last_use = absl::InfinitePast();
  };
  Use UseOf(absl::string_view adapter) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Drops these sets. FAILED_PRECONDITION, reason IN_USE: images are drawn with one; the others
  // have left.
  absl::Status Evict(absl::string_view adapter) ABSL_LOCKS_EXCLUDED(mutex_);
  // Weights of sets with a pinned adapter leave for no others.
  void SetPinned(absl::string_view adapter, bool pinned) ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsPinned(absl::string_view adapter) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Set {
    bool Has(absl::string_view adapter) const;
    bool in_use() const { return graphs.use_count() > 1; }

    std::string user;  // "base+film:0.8", by which the store knows it
    std::string key;   // the model, and all of the adapters
    std::vector<std::string> adapters;
    // Held for sets of other weights, for which the catalogue finds them then.
    std::vector<std::shared_ptr<const adapters::Lora>> loras;
    Graphs graphs;
  };

  bool HasPinned(const Set& set) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  Graphs FindLocked(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes out those beyond the most, for the caller to free without the lock.
  std::list<Set> Trim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Set> Make(const LoadedModel& model, absl::Span<const Adapter> adapters) const;
  void Drop(std::list<Set> sets);

  adapters::Catalogue& catalogue_;
  compiler::GraphStore& store_;
  ControlNets control_nets_;
  IpAdapters ip_adapters_;
  mutable absl::Mutex mutex_;
  std::list<Set> sets_ ABSL_GUARDED_BY(mutex_);  // the one used last first
  std::set<std::string, std::less<>> pinned_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::pipeline
