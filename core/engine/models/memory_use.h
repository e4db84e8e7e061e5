// The memory that is held now for a device, by its holders, and checks that a graph more fits. What
// images of all devices hold of the host counts with the first that has not failed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/compiler/graph_store.h"
#include "core/engine/api/memory_report.h"
#include "core/engine/loop/picture_loop.h"
#include "core/engine/models/memory_budget.h"
#include "core/engine/models/stores.h"
#include "core/metrics/registry.h"
#include "core/pipeline/units/lanes.h"
#include "core/weights/weight_store.h"

namespace latentd::engine {

// Thread-safe.
class MemoryUse {
 public:
  // All must outlive this.
  struct Parts {
    Stores& stores;
    const PictureLoop& loop;
    size_t device = 0;  // its number in the loop
    std::string label;  // its name in metrics
    MemoryBudget& budget;
    bool keeps_tensors = false;  // for sets of LoRAs, where the device has memory of its own
  };
  explicit MemoryUse(Parts parts) : parts_(std::move(parts)) {}

  MemoryReport Report() const;

  // Brings the gauges up to date.
  void Show(metrics::Registry& registry) const;

  // OK if there is room for a lane: MemoryBudget::CheckLane. For the least that a picture needs
  // idle graphs are evicted; for rows to share steps none is.
  absl::Status AskLaneRoom(const pipeline::LaneMemory& lane) const;

  // OK if the graph fits, once what `leaves` names is gone: otherwise MemoryBudget::Check's error.
  // Unless that is only asked, memory that is left beside it is for kept tensors.
  absl::Status CheckFits(const compiler::GraphLabel& label, const backends::MemoryNeeds& needs,
                         const compiler::Eviction& leaves) const;

 private:
  using Check = absl::FunctionRef<absl::Status(absl::Span<const weights::WeightInfo> held,
                                               const MemoryReport& report)>;
  // Result of `check` on held memory, once what `leaving` names is gone, and kept tensors where it
  // fits only without: unless that is only asked, so many are dropped.
  absl::Status CheckReport(const compiler::GraphLabel& label, const backends::MemoryNeeds& needs,
                           const compiler::Eviction& leaving, Check check) const;
  // Drops kept tensors until `check` says OK, or none is left.
  void DropTensors(absl::Span<const weights::WeightInfo> held, MemoryReport& report,
                   Check check) const;
  // Sets the limit of kept tensors to what there may be beside the report and the graph.
  void LimitTensors(const compiler::GraphLabel& label, const backends::MemoryNeeds& needs,
                    const MemoryReport& report) const;
  void AddPictures(MemoryReport& report) const;
  // Adds figures of device and host. REQUIRES: held memory has been added.
  void AddDevice(MemoryReport& report) const;
  device::Device& device() const { return parts_.stores.weights.device(); }

  const Parts parts_;
};

// Fills in the weights: each result counts for every component that uses it, and once in the sum.
// A component that has a graph ready and holds no weights for it shares those of another.
void AddWeights(absl::Span<const weights::WeightInfo> held,
                absl::Span<const compiler::GraphStatus> graphs, MemoryReport& report);

// Parses the text of /proc/self/status, in bytes; 0 if it is not there.
int64_t ParsePeakResident(absl::string_view status);

}  // namespace latentd::engine
