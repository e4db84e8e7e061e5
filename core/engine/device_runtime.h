// A DeviceRuntime is what an engine has for one device: its backend, its stores of weights and
// graphs, and the models on it, with a thread that compiles and loads graphs (Preparer). Its lanes
// are the loop's.
//
// A device that has failed while others have not is retired: the runtime asks it for nothing more,
// and shows none of what it held.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/adapters/catalogue/catalogue.h"
#include "core/backends/backend.h"
#include "core/batching/predict/unit.h"
#include "core/engine/admin/admin_devices.h"
#include "core/engine/api/capabilities.h"
#include "core/engine/api/config.h"
#include "core/engine/api/generate_spec.h"
#include "core/engine/loop/picture_loop.h"
#include "core/engine/models/bucket_graphs.h"
#include "core/engine/models/cache_watch.h"
#include "core/engine/models/checkpoint_watch.h"
#include "core/engine/models/memory_budget.h"
#include "core/engine/models/memory_use.h"
#include "core/engine/models/stores.h"
#include "core/engine/prepare/admission.h"
#include "core/engine/prepare/cold_requests.h"
#include "core/engine/prepare/kept_memory.h"
#include "core/engine/prepare/preparer.h"
#include "core/engine/prepare/shared_step_graphs.h"
#include "core/engine/reports/status_board.h"
#include "core/pipeline/picture/picture.h"
#include "core/pipeline/plan/plan.h"

namespace latentd::engine {

class DeviceRuntime {
 public:
  // Parts of the engine that its devices have in common. All must outlive the runtime.
  struct Parts {
    const Clock& clock;
    metrics::Registry& registry;  // the runtime's is a part of it
    StatusBoard& board;
    std::shared_ptr<cache::DiskCache> disk;   // may be null
    PictureLoop& loop;                        // made after it
    adapters::Catalogue* adapters = nullptr;  // null: there are none
    std::string label = "0";                  // the device's name in metrics
    std::string progress_label = {};          // likewise in Progress
    // Called by GiveUp, from any thread. May be empty.
    std::function<void()> give_up = {};
    // True if a device that has not failed has the first model from the start on.
    std::function<bool()> has_first_model;
  };
  // `device` is its number for the board and the loop.
  DeviceRuntime(Config config, size_t device, std::unique_ptr<backends::Backend> backend,
                Parts parts);
  ~DeviceRuntime();

  // Bytes that models may have on it by the budget.
  absl::StatusOr<int64_t> ModelBytes() const;
  // As the engine's, for this device, of those that models are placed on; none: it has all.
  absl::Status Load(const std::vector<pipeline::DeviceRoom>& devices = {});
  void RefreshMetrics();
  void CheckFiles();
  void GiveBackMemory() {
    if (!retired_) kept_.GiveBackUnused();
  }
  Capabilities capabilities() const;
  std::vector<FieldViolation> Validate(const GenerateSpec& spec) const;
  // Stops loading and warming, and says so by the status.
  void Stop();
  // Waits until no graph is being made ready; from then on it does not use the loop.
  void End() { preparer_.Stop(); }

  // As Admission::Resolve.
  absl::StatusOr<pipeline::SharedPlan> Resolve(const GenerateSpec& spec) const {
    return admission_.Resolve(spec);
  }
  // Images of such a plan of the request; none where their graphs have to be made ready first, and
  // may be. `inputs` are those that were planned for. UNAVAILABLE: it is found that the device has
  // failed, and reported.
  absl::StatusOr<Job::Pictures> Start(const GenerateSpec& spec, const pipeline::SharedPlan& plan,
                                      const pipeline::SharedInputs& inputs);
  // Need of images that wait for their graphs, and when these will be ready.
  batching::Need ColdNeed(const pipeline::SharedPlan& plan) const;
  // Images of such a plan, whose graphs are not ready, were refused for this; OK: they were not.
  void NoteRefused(const pipeline::Plan& plan, const absl::Status& refusal);
  // Memory that a request held is free.
  void NoteDeparture() { cold_.TryAgain(); }
  // True if there are graphs that the picture could have used and that are not loaded.
  bool LacksGraphs(const pipeline::Picture& picture) const;
  // Images of such a plan have been admitted, that lack graphs or do not.
  void Touch(const pipeline::Plan& plan, bool lacks_graphs);
  // One whose graphs are not ready, which the loop has admitted. Throws std::bad_alloc, and holds
  // nothing for it then.
  void Prepare(const std::shared_ptr<Job>& job, pipeline::SharedInputs inputs) {
    cold_.Add(job, std::move(inputs));
  }
  void Forget(uint64_t handle) { cold_.Remove(handle); }
  // Takes all that have not begun: for another device to prepare.
  ColdRequests::Taken TakeCold() { return cold_.TakeAll(); }
  // Waits until no graph is left to be made ready.
  void FinishPreparing() { preparer_.Flush(); }

  AdminDevice admin();
  PictureLoop::Device device();
  const Config& config() const { return config_; }  // with the defaults of its backend
  // For the calling thread, which computes.
  void BringThreads() const;
  // The device has failed. True the first time.
  bool Lose() { return !lost_.exchange(true); }
  bool is_lost() const { return lost_; }
  // Says so by the status, for good.
  void ShowFault(const absl::Status& fault);
  // Once it is lost and others are not: its driver is called no more, to give back memory either.
  // Waits for nothing, nor asks for memory; as often as it is found out.
  void GiveUp();
  // Once it is given up. Waits for nothing.
  void Retire();
  bool is_open() const { return open_; }
  // The model that starts images of the request; the first where it has none of that name.
  // REQUIRES: is_open().
  const pipeline::ModelRow& ModelFor(const pipeline::PictureSpec& spec) const {
    return models_.pipeline->StartOf(spec);
  }

 private:
  void OpenModels();
  absl::Status TryLoad(const std::vector<pipeline::DeviceRoom>& devices);
  absl::StatusOr<Job::Pictures> TryStart(const GenerateSpec& spec, const pipeline::SharedPlan& plan,
                                         const pipeline::SharedInputs& inputs);
  // Brings the status up to date with how the graphs stand; `warmed`: warming is over.
  void ShowBuckets(bool warmed = false);
  void ShowWarm(const std::vector<BucketGraphs::BucketState>& states);

  const Config config_;
  const size_t device_;
  const Parts parts_;
  metrics::Registry registry_;
  DeviceStatus status_;
  std::unique_ptr<backends::Backend> backend_;  // stays the same
  MemoryBudget budget_;
  std::atomic<bool> stop_ = false;  // loading and warming
  std::atomic<bool> open_ = false;  // the models are loaded
  std::atomic<bool> lost_ = false, given_up_ = false, retired_ = false;
  Stores stores_;
  Models models_;
  Admission admission_;
  ColdRequests cold_;
  MemoryUse memory_;
  Preparer preparer_;
  KeptMemory kept_;
  SharedStepGraphs shared_step_graphs_;
  // Last: their threads use the others.
  CheckpointWatch watch_;
  CacheWatch cache_watch_;
};

}  // namespace latentd::engine
