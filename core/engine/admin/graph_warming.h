// GraphWarming compiles and loads the graphs that an operator selects, on every device that has
// their models from the start on.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/compiler/graph_store.h"
#include "core/engine/admin/admin_devices.h"
#include "core/engine/api/graph_admin.h"

namespace latentd::engine {

class GraphWarming {
 public:
  // Graphs to be warmed.
  struct Plan {
    std::vector<ModelBucket> buckets;
    GraphHandles graphs;  // the graphs of the buckets, then those named otherwise
    GraphHandles named;   // the latter
  };
  using Progress = std::function<bool(const WarmProgress&)>;

  // `devices` must outlive it.
  explicit GraphWarming(const AdminDevices& devices) : devices_(devices) {}

  // As GraphAdmin::Warm. On one device after the other: what the first has compiled the others take
  // from the disk cache, if there is one. Tells of each graph once for each device.
  absl::StatusOr<WarmOutcome> Warm(const GraphSelector& selector, bool dry_run,
                                   const Progress& progress);

 private:
  absl::StatusOr<WarmOutcome> On(size_t device, const GraphSelector& selector, bool dry_run,
                                 const Progress& progress);
  absl::StatusOr<Plan> PlanFor(size_t device, const GraphSelector& selector) const;
  // The buckets that the selector names or means, of the models that it names; of the first model,
  // where it names none; of none that is elsewhere.
  std::vector<ModelBucket> BucketsOn(size_t device, const GraphSelector& selector) const;
  absl::Status AddNamed(size_t device, const GraphSelector& selector, GraphHandles& graphs) const;

  const AdminDevices& devices_;
};

}  // namespace latentd::engine
