// From a configuration to a server that serves: loads the checkpoints, then loads or compiles every
// graph that the configured buckets need, and tells the board how far it is.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/base/clock.h"
#include "core/engine/api/config.h"
#include "core/engine/models/bucket_graphs.h"
#include "core/engine/models/memory_budget.h"
#include "core/engine/models/stores.h"
#include "core/engine/prepare/preparer.h"
#include "core/engine/reports/status_board.h"
#include "core/metrics/registry.h"
#include "core/pipeline/spec/models/placement.h"

namespace latentd::engine {

// Not thread-safe; runs once.
class StartUp {
 public:
  // All must outlive this; `models` also what comes to hold functions of it: the budget.
  struct Parts {
    const Config& config;
    const Clock& clock;
    metrics::Registry& registry;
    DeviceStatus& status;
    Stores& stores;
    MemoryBudget& budget;
    Preparer& preparer;
    Models& models;
    adapters::Catalogue* adapters = nullptr;         // null: there are none
    std::vector<pipeline::DeviceRoom> devices = {};  // as in LoadOptions
    size_t device = 0;                               // number of this one
    const std::atomic<bool>& stop;                   // true: it is to end soon
    std::function<void()> loaded;                    // called once the models are there
    std::function<void(bool warmed)> show_buckets;   // called when graphs came; `warmed`: all have
  };
  explicit StartUp(Parts parts) : parts_(std::move(parts)) {}

  // As Engine::Load.
  absl::Status Run();

 private:
  absl::Status FailLoading(const absl::Status& status);
  absl::Status LoadModels();
  absl::Status OpenBuckets();
  absl::Status WarmBuckets();
  absl::Status WarmPreviews(const GraphHandles& previews);
  // Compiles what models need that are loaded on demand. Adds what failed.
  absl::Status CompileOnDemand(const GraphHandles& graphs, Preparer::Failures& failures);
  absl::Status CompileControlled(const GraphHandles& graphs);
  void PinModels();
  // An error ends the start.
  enum class How : uint8_t { kLoad, kLoadBesideOthers, kCompileOnly };
  absl::StatusOr<Preparer::Ended> Prepare(const GraphHandles& graphs, How how);
  void ShowProgress(const WarmProgress& progress);
  void ShowPhases(absl::Duration weights, absl::Duration total);

  const Parts parts_;
};

}  // namespace latentd::engine
