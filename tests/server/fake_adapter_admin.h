// An AdapterAdmin of the adapters that a test says. They are set before it is called.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/engine/api/adapter_admin.h"

namespace latentd::server {

class FakeAdapterAdmin : public engine::AdapterAdmin {
 public:
  std::vector<engine::AdapterStatus> adapters;

  absl::StatusOr<std::vector<engine::AdapterStatus>> List() override { return adapters; }
  absl::Status Load(const std::string&) override { return absl::OkStatus(); }
  absl::Status Evict(const std::string&) override { return absl::OkStatus(); }
  absl::Status Pin(const std::string& name, bool pinned) override {
    for (engine::AdapterStatus& adapter : adapters) {
      if (adapter.facts.name == name) adapter.pinned = pinned;
    }
    return absl::OkStatus();
  }
};

}  // namespace latentd::server
