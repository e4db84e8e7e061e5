// A LocalGraphAdmin shows operators the graphs and memory of an engine's devices. A graph is shown
// once, and what is asked for is done on every device that knows it.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/compiler/graph_store.h"
#include "core/engine/api/graph_admin.h"
#include "core/engine/models/bucket_graphs.h"
#include "core/engine/models/memory_use.h"
#include "core/engine/models/stores.h"
#include "core/engine/prepare/preparer.h"
#include "core/engine/reports/graph_selection.h"

namespace latentd::engine {

class LocalGraphAdmin : public GraphAdmin {
 public:
  // Parts of a device that it shows. All must outlive the administration.
  struct Device {
    BucketGraphs& buckets() const { return *models.buckets; }  // REQUIRES: `open`

    Stores& stores;
    const Models& models;
    const MemoryUse& memory;
    Preparer& preparer;
    const std::atomic<bool>& open;  // checkpoints are loaded; until then it is UNAVAILABLE
    const std::atomic<bool>& stop;  // nothing is begun any more
    // It has failed, and others have not: it is neither shown nor asked.
    const std::atomic<bool>& retired;
    std::function<void()> changed;  // called when graphs came or went
  };
  // Graphs to be warmed.
  struct WarmPlan {
    std::vector<ModelBucket> buckets;
    GraphHandles graphs;  // the graphs of the buckets, then those named otherwise
    GraphHandles named;   // the latter
  };
  // REQUIRES: there are some, and they are equal: a graph has the same id on each. `names` are
  // theirs, in messages.
  LocalGraphAdmin(std::vector<std::string> names, std::vector<Device> devices)
      : names_(std::move(names)), devices_(std::move(devices)) {}

  absl::StatusOr<std::vector<GraphEntry>> List(const GraphSelector& selector) const override;
  absl::StatusOr<GraphEntry> Find(const std::string& id) const override;
  // On one device after the other: what the first has compiled the others take from the disk cache,
  // if there is one. Tells of each graph once for each device.
  absl::StatusOr<WarmOutcome> Warm(
      const GraphSelector& selector, bool dry_run,
      const std::function<bool(const WarmProgress&)>& progress) override;
  // Save and Export take each graph from one device that has it compiled.
  absl::StatusOr<std::vector<EntryResult>> Save(const GraphSelector& selector) override;
  absl::StatusOr<std::vector<EntryResult>> Load(const GraphSelector& selector) override;
  absl::StatusOr<std::vector<EntryResult>> Verify(const GraphSelector& selector) override;
  absl::StatusOr<std::vector<EntryResult>> Evict(const GraphSelector& selector, CacheTier tier,
                                                 bool force) override;
  absl::StatusOr<std::vector<EntryResult>> SetPinned(const GraphSelector& selector,
                                                     bool pinned) override;
  absl::Status Export(const GraphSelector& selector,
                      const std::function<bool(std::string artifact)>& take) override;
  absl::StatusOr<EntryResult> Import(std::string artifact) override;
  absl::StatusOr<std::vector<ModelStatus>> ListModels() const override;
  absl::Status PinModel(const std::string& name, bool pinned) override;
  absl::StatusOr<std::vector<AdapterStatus>> ListAdapters() override;
  absl::Status LoadAdapter(const std::string& name) override;
  absl::Status EvictAdapter(const std::string& name) override;
  absl::Status PinAdapter(const std::string& name, bool pinned) override;
  MemoryReport memory() const override;

 private:
  using Graphs = std::vector<std::vector<compiler::GraphStatus>>;  // by device

  // Numbers of the devices that are not retired; the first of these.
  std::vector<size_t> Left() const;
  const Device& First() const { return devices_[Left().front()]; }

  absl::Status CheckOpen() const;
  // The adapter's sets of each device. Errors as PinAdapter's.
  absl::StatusOr<std::vector<pipeline::AdapterSets*>> SetsOf(const std::string& name) const;
  // The selected graphs; with `kept` those to release (SelectToRelease).
  absl::StatusOr<Graphs> Selected(const GraphSelector& selector,
                                  bool (*kept)(const compiler::GraphStatus&) = nullptr) const;
  // Each for one device only.
  absl::StatusOr<Graphs> SelectedToCopy(const GraphSelector& selector) const;

  // True: the device has not the model from the start on, and another one has
  // (ModelRow::is_placed).
  bool IsElsewhere(size_t device, pipeline::ModelId model) const;
  // The models that the selector names, or whose graphs it names, or that are loaded without being
  // asked for; none that is elsewhere, as in the next.
  std::vector<std::string> UsersToLoad(size_t device, const GraphSelector& selector) const;
  // The buckets that the selector names or means, of the models that it names; of the first model,
  // where it names none.
  std::vector<ModelBucket> BucketsToWarm(size_t device, const GraphSelector& selector) const;
  absl::StatusOr<WarmPlan> PlanWarm(size_t device, const GraphSelector& selector) const;
  absl::Status AddNamed(size_t device, const GraphSelector& selector, GraphHandles& graphs) const;
  absl::StatusOr<WarmOutcome> WarmOn(size_t device, const GraphSelector& selector, bool dry_run,
                                     const std::function<bool(const WarmProgress&)>& progress);

  ModelStatus StatusOnAll(const pipeline::ModelRow& model) const;

  using Change = absl::FunctionRef<absl::Status(const Device& device, const std::string& id)>;
  std::vector<EntryResult> ForEach(const Graphs& graphs, Change change) const;

  const std::vector<std::string> names_;
  const std::vector<Device> devices_;
};

}  // namespace latentd::engine
