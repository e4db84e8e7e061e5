// The engine of several equal devices: one LocalEngine for each, with its own weights, graphs,
// arena and loop, behind one door. A request goes to the device whose queue will be done first, and
// where that refuses it to the next; all its pictures are drawn there, also if another becomes free
// sooner than was foreseen.
//
// Devices load at the same time. Their graphs have the same keys, and the disk cache lets one
// compile what the others wait for and load, so that they draw the same bytes. Without a cache
// directory each compiles its own, and one may choose otherwise than another.
//
// The state is that of the device that is least far: ready once all are. One that cannot load ends
// the start; one that fails later (core/device/device_fault.h) ends the process as if it were
// alone, since a supervisor then starts all of them again: new requests are refused, and what the
// others are at is drained.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/backends/backend.h"
#include "core/base/clock.h"
#include "core/cache/disk_cache.h"
#include "core/engine/engine.h"
#include "core/engine/local_engine.h"
#include "core/engine/pool_graph_admin.h"
#include "core/engine/request_counts.h"
#include "core/engine/status_board.h"
#include "core/metrics/registry.h"

namespace latentd::engine {

class DevicePool : public Engine {
 public:
  struct Device {
    int ordinal = 0;  // by which messages name it
    std::unique_ptr<backends::Backend> backend;
  };
  // INVALID_ARGUMENT: the devices are not equal. What `config` bounds it bounds for each device.
  // REQUIRES: there are some. `clock` must outlive the pool.
  static absl::StatusOr<std::unique_ptr<DevicePool>> Create(const Config& config,
                                                            std::vector<Device> devices,
                                                            const Clock& clock);
  ~DevicePool() override;

  absl::Status Load() override;
  State state() const override { return board_.state(); }
  ServerStatus status() const override { return board_.status(); }
  void OnStatusChange(StatusListener listener) override { board_.AddListener(std::move(listener)); }
  GraphAdmin& graphs() override { return *admin_; }
  metrics::Registry& metrics() override { return registry_; }
  // A listener of the status must not call it.
  void RefreshMetrics() override;
  void CheckFiles() override;
  void GiveBackMemory() override;
  // Its queue_capacity is of all devices together.
  Capabilities capabilities() const override;
  std::vector<FieldViolation> Validate(const GenerateSpec& spec) const override;
  absl::StatusOr<uint64_t> Submit(GenerateSpec spec, std::shared_ptr<EventSink> sink) override
      ABSL_LOCKS_EXCLUDED(placing_);
  void Cancel(uint64_t handle) override;
  Hangs FindHangs() const override;
  bool WaitsForReaders() const override;
  void Drain(absl::Time deadline) override;

 private:
  DevicePool(const Config& config, std::vector<Device> devices, const Clock& clock);

  void ShowStatus();
  // Calls the function for all engines, at the same time where there are threads for it, and waits.
  void OnEach(const std::function<void(size_t device)>& call);
  absl::Status LoadDevice(size_t device);
  // In the order in which their queues will be done.
  std::vector<size_t> FreeFirst() const;
  absl::StatusOr<uint64_t> Place(GenerateSpec spec, const std::shared_ptr<EventSink>& sink)
      ABSL_LOCKS_EXCLUDED(placing_);
  absl::StatusOr<uint64_t> Ask(size_t device, GenerateSpec spec, std::shared_ptr<EventSink> sink,
                               LocalEngine::AfterRefusal refused);

  const Clock& clock_;
  metrics::Registry registry_;  // the engines' are its parts
  RequestCounts requests_{registry_};
  StatusBoard board_;
  const std::shared_ptr<cache::DiskCache> disk_;
  absl::Mutex placing_;  // a request is in a queue before the next is placed
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<LocalEngine>> engines_;
  std::optional<PoolGraphAdmin> admin_;
};

}  // namespace latentd::engine
