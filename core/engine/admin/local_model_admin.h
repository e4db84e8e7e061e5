// A LocalModelAdmin shows operators the models of an engine's devices. A model is shown once, and
// pinned on every device.
//
// Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/engine/admin/admin_devices.h"
#include "core/engine/api/model_admin.h"
#include "core/pipeline/spec/models/model_table.h"

namespace latentd::engine {

class LocalModelAdmin : public ModelAdmin {
 public:
  // `devices` must outlive it.
  explicit LocalModelAdmin(const AdminDevices& devices) : devices_(devices) {}

  absl::StatusOr<std::vector<ModelStatus>> List() const override;
  absl::Status Pin(const std::string& name, bool pinned) override;

 private:
  ModelStatus StatusOnAll(const pipeline::ModelRow& model) const;

  const AdminDevices& devices_;
};

}  // namespace latentd::engine
