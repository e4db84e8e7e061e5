// A ModelAdmin of the models that a test says. They are set before it is called.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/engine/api/model_admin.h"

namespace latentd::server {

class FakeModelAdmin : public engine::ModelAdmin {
 public:
  std::vector<engine::ModelStatus> models;

  absl::StatusOr<std::vector<engine::ModelStatus>> List() const override { return models; }
  absl::Status Pin(const std::string& name, bool pinned) override {
    for (engine::ModelStatus& model : models) {
      if (model.name == name) model.pinned = pinned;
    }
    return absl::OkStatus();
  }
};

}  // namespace latentd::server
