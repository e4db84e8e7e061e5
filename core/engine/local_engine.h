// A LocalEngine runs models in this process, on one device or on several equal ones: each is a
// DeviceRuntime with its own weights, graphs and arena. One queue has the requests of all, and one
// PictureLoop a thread for each. A request waits for every device that has its graphs ready, and is
// drawn by the one that is free first; where the device that has least to do has to make them ready
// and may, it waits for that one.
//
// Devices load at the same time. Their graphs have the same keys, and the disk cache lets one
// compile what the others wait for and load, so that they draw the same bytes. Without a cache
// directory each compiles its own, and one may choose otherwise than another.
//
// The server is ready once all devices are. One that cannot load ends the start. One that fails
// (core/device/device_fault.h), at the start too, ends what it draws and is retired: the server is
// degraded, and the others go on with what waits, until the last has failed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/backends/backend.h"
#include "core/base/clock.h"
#include "core/base/threads/worker.h"
#include "core/engine/admin/admin_devices.h"
#include "core/engine/admin/local_adapter_admin.h"
#include "core/engine/admin/local_graph_admin.h"
#include "core/engine/admin/local_model_admin.h"
#include "core/engine/device_runtime.h"
#include "core/engine/engine.h"
#include "core/engine/loop/picture_loop.h"
#include "core/engine/models/adapter_watch.h"
#include "core/engine/reports/status_board.h"
#include "core/engine/requests/departures.h"
#include "core/engine/requests/engine_metrics.h"
#include "core/engine/requests/job.h"
#include "core/metrics/registry.h"
#include "core/pipeline/plan/plan.h"

namespace latentd::engine {

class LocalEngine : public Engine {
 public:
  struct Device {
    int ordinal = 0;  // by which messages name it, if there are several, and metrics always
    std::unique_ptr<backends::Backend> backend;
    std::function<void()> give_up = {};  // DeviceRuntime::Parts
  };
  // INVALID_ARGUMENT: the devices are not equal. What `config` bounds it bounds for each device.
  // REQUIRES: there are some. `clock` must outlive the engine.
  static absl::StatusOr<std::unique_ptr<LocalEngine>> Create(const Config& config,
                                                             std::vector<Device> devices,
                                                             const Clock& clock);
  // An engine of one device; `backend` is the one that config.backend names.
  LocalEngine(const Config& config, std::unique_ptr<backends::Backend> backend, const Clock& clock);
  ~LocalEngine() override;

  absl::Status Load() override;
  State state() const override { return board_.state(); }
  ServerStatus status() const override { return board_.status(); }
  void OnStatusChange(StatusListener listener) override { board_.AddListener(std::move(listener)); }
  GraphAdmin& graphs() override { return graph_admin_; }
  ModelAdmin& models() override { return model_admin_; }
  AdapterAdmin& adapters() override { return adapter_admin_; }
  MemoryReport memory() const override { return admin_devices_.memory(); }
  metrics::Registry& metrics() override { return registry_; }
  void RefreshMetrics() override;
  void CheckFiles() override;
  void GiveBackMemory() override;
  // Its queue_capacity is of all devices together.
  Capabilities capabilities() const override;
  std::vector<FieldViolation> Validate(const GenerateSpec& spec) const override;
  absl::StatusOr<uint64_t> Submit(GenerateSpec spec, std::shared_ptr<EventSink> sink) override;
  void Cancel(uint64_t handle) override;
  Hangs FindHangs() const override { return loop_.FindHangs(); }
  bool WaitsForReaders() const override { return loop_.WaitsForReaders(); }
  void Drain(absl::Time deadline) override;

  // Waits until no graph is left to be made ready.
  void FinishPreparing();

 private:
  using Runtimes = std::vector<std::unique_ptr<DeviceRuntime>>;
  // A device that can draw a request.
  struct Offer {
    size_t device = 0;
    Job::Pictures pictures;  // none: their graphs have to be made ready first
    bool lacks_graphs = false;
  };
  // A request, planned, with its offers.
  struct Offers {
    pipeline::SharedPlan plan;
    pipeline::SharedInputs inputs;  // counted
    std::vector<Offer> all;
  };

  LocalEngine(const Config& config, std::vector<Device> devices, const Clock& clock);

  Runtimes RuntimesOf(const Config& config, std::vector<Device> devices);
  PictureLoop::Options LoopOptions(const Config& config);
  // Calls the function for all devices, at the same time where there are threads for it, and waits.
  void OnEach(const std::function<void(size_t device)>& call);
  // Room of each device that models are placed on; none: every device has all.
  std::vector<pipeline::DeviceRoom> FindRooms() const;
  absl::Status LoadDevice(size_t device, const std::vector<pipeline::DeviceRoom>& rooms);
  // Called by any thread that finds it out, as often as it does.
  void OnDeviceFault(const absl::Status& fault, size_t device);
  // On the thread of `retiring_`: the device has failed. What waited for it alone goes elsewhere.
  void Retire(size_t device);
  void MoveColdOf(size_t device);
  void MoveCold(const std::shared_ptr<Job>& job, pipeline::SharedInputs inputs);
  bool AllLost() const;
  // True if a device that has not failed has the first model from the start on.
  bool HasFirstModel() const;
  // True: other devices are asked too before one makes graphs of the plan ready.
  bool AsksOthers(const pipeline::Plan& plan) const;
  // The first device that has not failed; if all have, the first with models.
  const DeviceRuntime& First() const;
  // Devices that have not failed, in the order in which they will have done what is foreseen.
  std::vector<size_t> FreeFirst() const;
  // The same: first those that have the request's model from the start on, last those that have no
  // room for it.
  std::vector<size_t> CandidatesFor(const GenerateSpec& spec) const;
  absl::StatusOr<uint64_t> Admit(GenerateSpec spec, std::shared_ptr<EventSink> sink);
  // Offers of all devices that have its graphs ready, the first of CandidatesFor first; or of that
  // one alone, if it has to make them ready. The first that can draw the request plans it for all.
  absl::StatusOr<Offers> FindOffers(const GenerateSpec& spec);
  absl::StatusOr<Offer> OfferOf(size_t device, const GenerateSpec& spec, Offers& known);
  absl::Status CheckInputBytes(const pipeline::Inputs& inputs) const;
  // Begins a job that the loop has admitted.
  void Begin(Job& job, std::vector<Offer> offers);

  const Clock& clock_;
  const std::vector<std::string> names_;   // device names; empty: there is one device
  const std::vector<std::string> labels_;  // likewise in metrics
  metrics::Registry registry_;             // the devices' are its parts
  EngineMetrics metrics_{registry_, labels_};
  StatusBoard board_;
  const pipeline::Placement placement_;
  const std::unique_ptr<adapters::Catalogue> catalogue_;  // null: there are no adapters
  const Runtimes devices_;
  const std::shared_ptr<Departures> departures_ = std::make_shared<Departures>([this] {
    for (const auto& device : devices_) device->NoteDeparture();
  });
  Worker retiring_{"retiring"};
  std::atomic<bool> ends_ = false;  // nothing is retired any more
  PictureLoop loop_;
  const AdminDevices admin_devices_;
  LocalGraphAdmin graph_admin_{admin_devices_};
  LocalModelAdmin model_admin_{admin_devices_};
  LocalAdapterAdmin adapter_admin_{admin_devices_};
  std::optional<AdapterWatch> adapter_watch_;  // last: its thread uses the catalogue
};

}  // namespace latentd::engine
