// A LocalGraphAdmin shows operators the graphs of an engine's devices. A graph is shown once, and
// what is asked for is done on every device that knows it.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/engine/admin/admin_devices.h"
#include "core/engine/admin/graph_warming.h"
#include "core/engine/admin/selected_graphs.h"
#include "core/engine/api/graph_admin.h"

namespace latentd::engine {

class LocalGraphAdmin : public GraphAdmin {
 public:
  // `devices` must outlive it.
  explicit LocalGraphAdmin(const AdminDevices& devices) : devices_(devices), warming_(devices) {}

  absl::StatusOr<std::vector<GraphEntry>> List(const GraphSelector& selector) const override;
  absl::StatusOr<GraphEntry> Find(const std::string& id) const override;
  absl::StatusOr<WarmOutcome> Warm(
      const GraphSelector& selector, bool dry_run,
      const std::function<bool(const WarmProgress&)>& progress) override {
    return warming_.Warm(selector, dry_run, progress);
  }
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

 private:
  // The models that the selector names, or whose graphs it names, or that are loaded without being
  // asked for; none that is elsewhere.
  std::vector<std::string> UsersToLoad(size_t device, const GraphSelector& selector) const;

  using Change = absl::FunctionRef<absl::Status(const AdminDevice& device, const std::string& id)>;
  std::vector<EntryResult> ForEach(const SelectedGraphs& graphs, Change change) const;

  const AdminDevices& devices_;
  GraphWarming warming_;
};

}  // namespace latentd::engine
