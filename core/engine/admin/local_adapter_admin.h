// A LocalAdapterAdmin shows operators the adapters that an engine's devices draw with.
//
// Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/engine/admin/admin_devices.h"
#include "core/engine/api/adapter_admin.h"
#include "core/pipeline/graphs/adapter_sets.h"

namespace latentd::engine {

class LocalAdapterAdmin : public AdapterAdmin {
 public:
  // `devices` must outlive it.
  explicit LocalAdapterAdmin(const AdminDevices& devices) : devices_(devices) {}

  absl::StatusOr<std::vector<AdapterStatus>> List() override;
  absl::Status Load(const std::string& name) override;
  absl::Status Evict(const std::string& name) override;
  absl::Status Pin(const std::string& name, bool pinned) override;

 private:
  // The adapter's sets of each device. Errors as Pin's.
  absl::StatusOr<std::vector<pipeline::AdapterSets*>> SetsOf(const std::string& name) const;

  const AdminDevices& devices_;
};

}  // namespace latentd::engine
