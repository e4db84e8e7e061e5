// An Engine owns models, graphs and queue, and runs units of work on its devices. With the headers
// in api/ it is all of core/ that server/ sees; nothing there shows a tensor.
//
// Life: Create -> kLoading (checkpoints) -> kWarming (graphs of the configured buckets) -> kReady,
// or kDegraded if some bucket failed to load or a checkpoint was edited -> (Drain) kDraining ->
// destroyed; Load failing leaves kFailed. A degraded server becomes ready when its last bucket
// does, unless a checkpoint was edited. Step graphs that pictures share (Config::rows) come and
// fail without changing the state. A device that works no more for this process, whatever is
// tried (core/device/device_fault.h), ends the requests that it draws UNAVAILABLE, reason
// DEVICE_FAULT; while there are others the state is kDegraded, and they go on. The last one leads
// to kFailed from everywhere but kDraining: all requests end so, and so do new ones; then the
// process should. Thread-safe: every method may be called from any thread; Submit, Cancel and the
// getters return quickly.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/errors/error_details.h"
#include "core/engine/api/adapter_admin.h"
#include "core/engine/api/capabilities.h"
#include "core/engine/api/config.h"
#include "core/engine/api/events.h"
#include "core/engine/api/generate_spec.h"
#include "core/engine/api/graph_admin.h"
#include "core/engine/api/hangs.h"
#include "core/engine/api/memory_report.h"
#include "core/engine/api/model_admin.h"
#include "core/engine/api/status.h"
#include "core/metrics/registry.h"

namespace latentd::engine {

// Main function of the process that Config::trial_command starts for that GPU: its exit code.
int TryKernels(int ordinal);

class Engine {
 public:
  // Checks the configuration's form, and opens the devices. `clock` must outlive the engine.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(Config config, const Clock& clock);
  // Cancels what still runs and waits for it.
  virtual ~Engine() = default;

  // Loads checkpoints, then loads or compiles every graph that a picture of the configured buckets
  // needs and runs each once; blocks; call once. Step graphs of more rows follow by themselves.
  // FAILED_PRECONDITION, reason CHECKPOINT_CHANGED: a checkpoint was edited meanwhile; INTERNAL,
  // reason DEVICE_FAULT: all devices have failed. After OK the state is kReady or kDegraded. A call
  // to Drain makes it return CANCELLED soon.
  virtual absl::Status Load() = 0;

  virtual State state() const = 0;

  virtual ServerStatus status() const = 0;
  // Calls `listener` after every change of status() with what it is then: one call at a time, in
  // the order of the changes (of several that come at once, it may only see the last), from a
  // thread that changes something and goes on once all is told. It must not block and may call any
  // method that does not. Register before Load. Lives as long as the engine.
  virtual void OnStatusChange(StatusListener listener) = 0;

  virtual GraphAdmin& graphs() = 0;
  virtual ModelAdmin& models() = 0;
  virtual AdapterAdmin& adapters() = 0;
  virtual MemoryReport memory() const = 0;

  // Metrics that core counts. Lives as long as the engine; gauges are brought up to date by
  // RefreshMetrics, which a scrape calls first: it asks no disk, and the status stays as it is.
  virtual metrics::Registry& metrics() = 0;
  virtual void RefreshMetrics() = 0;

  // Looks, on threads of its own, what others have done to the files that are served: whether those
  // of the checkpoints were edited or replaced since they were loaded, and every few seconds which
  // graphs are in the cache. A server whose checkpoint was edited is degraded, says so, and serves
  // what it has: it loads and writes nothing more of it. To be called every second or so; returns
  // at once.
  virtual void CheckFiles() = 0;

  // Lets devices return memory to their drivers that they keep for reuse and that has not been
  // used for a minute. To be called every second or so; returns at once.
  virtual void GiveBackMemory() = 0;

  // REQUIRES: state() was kWarming once.
  virtual Capabilities capabilities() const = 0;

  // Every bad field at once; empty if Submit would not refuse the spec for one. Submit does it too:
  // only for who has found other faults already. REQUIRES: state() was kWarming once.
  virtual std::vector<FieldViolation> Validate(const GenerateSpec& spec) const = 0;

  // OK (a handle for Cancel) iff the sink will see events, the last of which is Completed or
  // Failed. Otherwise the sink is never called: INVALID_ARGUMENT (with every bad field, or reason
  // RESPONSE_TOO_LARGE), UNAVAILABLE (reason LOADING, DRAINING or DEVICE_FAULT, retry delay),
  // RESOURCE_EXHAUSTED (reason QUEUE_FULL with a retry delay, OUT_OF_MEMORY), DEADLINE_EXCEEDED
  // (reason PREDICTED_OVERRUN, with a retry delay where that helps), FAILED_PRECONDITION
  // (reason BUCKET_COLD: the size is configured and would have to be compiled; COMPILE_FORBIDDEN:
  // COLD_OK, which this server does not let compile). Failed says FAILED_PRECONDITION, reason
  // CHECKPOINT_CHANGED, where something would have to be loaded from a file that was edited.
  virtual absl::StatusOr<uint64_t> Submit(GenerateSpec spec, std::shared_ptr<EventSink> sink) = 0;

  // Ends the request, at its next step if it has begun, in Failed(CANCELLED), or DEADLINE_EXCEEDED
  // where its deadline has passed; unknown or finished handles are ignored.
  virtual void Cancel(uint64_t handle) = 0;

  // For probes: waits for nothing that may hang.
  virtual Hangs FindHangs() const = 0;

  // True if finished pictures that wait to be encoded and read hold as much memory as they may
  // (Config::picture_memory_bytes), so that the next picture is not begun. To be asked every second
  // or so.
  virtual bool WaitsForReaders() const = 0;

  // No new requests; waits until running ones end or `deadline` (monotonic), then cancels the rest.
  virtual void Drain(absl::Time deadline) = 0;
};

}  // namespace latentd::engine
