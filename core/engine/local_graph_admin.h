// Graphs and memory of a LocalEngine, for operators.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/compiler/graph_store.h"
#include "core/engine/bucket_graphs.h"
#include "core/engine/graph_admin.h"
#include "core/engine/memory_use.h"
#include "core/engine/preparer.h"
#include "core/engine/stores.h"

namespace latentd::engine {

class LocalGraphAdmin : public GraphAdmin {
 public:
  // Parts of an engine that it shows. All must outlive the administration.
  struct Parts {
    Stores& stores;
    const MemoryUse& memory;
    Preparer& preparer;
    const std::atomic<bool>& stop;  // nothing is begun any more
    std::function<void()> changed;  // called when graphs came or went
  };
  explicit LocalGraphAdmin(Parts parts) : parts_(std::move(parts)) {}

  // The checkpoints are loaded; until then everything but memory() is UNAVAILABLE. `buckets` must
  // outlive this.
  void Open(BucketGraphs& buckets) { buckets_ = &buckets; }
  bool is_open() const { return buckets_ != nullptr; }

  absl::StatusOr<std::vector<GraphEntry>> List(const GraphSelector& selector) const override;
  absl::StatusOr<GraphEntry> Find(const std::string& id) const override;
  absl::StatusOr<WarmOutcome> Warm(
      const GraphSelector& selector, bool dry_run,
      const std::function<bool(const WarmProgress&)>& progress) override;
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
  MemoryReport memory() const override { return parts_.memory.Report(); }

 private:
  // Graphs to be warmed.
  struct WarmPlan {
    std::vector<pipeline::Size> buckets;
    GraphHandles graphs;  // the graphs of the buckets, then those named otherwise
    GraphHandles named;   // the latter
  };

  BucketGraphs& buckets() const { return *buckets_.load(); }  // REQUIRES: CheckOpen is OK
  absl::Status CheckOpen() const;
  absl::Status CheckNotStopping() const;
  absl::StatusOr<std::vector<compiler::GraphStatus>> Selected(const GraphSelector& selector) const;
  absl::StatusOr<std::vector<compiler::GraphStatus>> SelectedToCopy(
      const GraphSelector& selector) const;
  // Graphs to release: see SelectToRelease.
  absl::StatusOr<std::vector<compiler::GraphStatus>> SelectedToRelease(
      const GraphSelector& selector, bool (*kept)(const compiler::GraphStatus&)) const;
  absl::StatusOr<WarmPlan> PlanWarm(const GraphSelector& selector) const;
  absl::Status CheckSizes(const std::vector<pipeline::Size>& sizes) const;
  absl::Status AddNamed(const GraphSelector& selector, GraphHandles& graphs) const;
  absl::StatusOr<WarmOutcome> WarmSelected(
      const GraphSelector& selector, bool dry_run,
      const std::function<bool(const WarmProgress&)>& progress);
  absl::StatusOr<MemoryPrediction> Predict(const WarmPlan& plan);
  void RecordOutcomes(const WarmPlan& plan, const std::map<std::string, absl::Status>& failures);

  using Change = std::function<absl::Status(const std::string& id)>;
  absl::StatusOr<std::vector<EntryResult>> ForEach(const GraphSelector& selector,
                                                   const Change& change) const;
  std::vector<EntryResult> ForEach(const std::vector<compiler::GraphStatus>& infos,
                                   const Change& change) const;

  const Parts parts_;
  std::atomic<BucketGraphs*> buckets_ = nullptr;
};

}  // namespace latentd::engine
