// The engine owns models, graphs, queue and the one loop that runs units of work. It is the only
// header of core/ (with those it includes) that server/ sees; nothing here shows a tensor.
//
// Life: Create -> kLoading (checkpoints) -> kWarming (graphs of the configured buckets) -> kReady,
// or kDegraded if some bucket failed to load or a checkpoint was edited -> (Drain) kDraining ->
// destroyed; Load failing leaves kFailed. A degraded server becomes ready when its last bucket
// does, unless a checkpoint was edited. Step graphs that pictures share (Config::rows) come and
// fail without changing the state. A device that works no more for this process, whatever is
// tried (core/device/device_fault.h), leads to kFailed from everywhere but kDraining: requests end
// UNAVAILABLE, reason DEVICE_FAULT, and so do new ones; then the process should. Thread-safe: every
// method may be called from any thread; Submit, Cancel and the getters return quickly.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/error_details.h"
#include "core/base/thread_watch.h"
#include "core/batching/predict/unit.h"
#include "core/engine/generate_spec.h"
#include "core/engine/graph_admin.h"
#include "core/engine/priority_limits.h"
#include "core/metrics/registry.h"
#include "core/pipeline/spec/components.h"
#include "core/pipeline/spec/limits.h"
#include "core/pipeline/spec/picture_spec.h"
#include "core/pipeline/spec/step_rows.h"

namespace latentd::engine {

using batching::kMostRows;
using pipeline::kDefaultSharedPixels;
using pipeline::kMaxRowsOfPicture;
using ComponentMode = pipeline::ComponentMode;
using DType = device::DType;
using pipeline::IsComponentName;
using pipeline::IsDispensable;
using pipeline::kComponentNames;
using pipeline::kGraphComponents;
using pipeline::NoSuchComponent;

// Filled by server/ from flags and the configuration file.
struct Config {
  std::string base;     // a diffusers checkpoint directory
  std::string refiner;  // the same, or empty
  std::string variant;  // "fp16" reads *.fp16.safetensors; empty: files without a suffix, else fp16
  std::string backend = "cpu";  // "cpu", "cuda" or "reference"
  // GPUs by their number, of the cuda backend, each once; empty: the first. Of several, each has
  // what is said below of memory and of pictures that wait.
  std::vector<int> devices;
  // Starts a program that calls TryKernels with its last argument, the GPU's number, which is
  // added: kernels that may fault are tried there. Empty: they are tried in this process, and one
  // that faults is a device fault.
  std::vector<std::string> trial_command = {};
  int threads = 0;           // for kernels; 0: as many as the process may use
  int64_t memory_bytes = 0;  // budget; 0: what the machine and the cgroup allow
  int queue_capacity = 64;   // pictures waiting, beyond which Submit refuses
  // Limit of a request's forecast wait: one that would wait longer is refused, too.
  absl::Duration max_queue_time = absl::InfiniteDuration();
  // Host memory for init images and latents of requests, which may have a half of it, and for
  // finished pictures that wait to be encoded or read. 0: 512 MiB, or an eighth of its memory.
  int64_t picture_memory_bytes = 0;
  PriorityLimits priorities;  // limits of what requests may ask for

  std::string cache_dir;                          // empty: nothing survives a restart
  int64_t cache_max_bytes = int64_t{10} << 30;    // the cache's files
  int64_t graph_memory_bytes = int64_t{1} << 30;  // executables and artifacts in memory
  std::vector<pipeline::Size> buckets;  // empty: the model's own (core/batching/buckets.h)
  // Row counts of step graphs: 1 to kMostRows, 1 or 2 too. A picture has 1, with guidance 2; more
  // are for pictures to share, and are made ready while the server serves. Empty: what suits the
  // backend.
  std::vector<int> rows;
  // Limit of a step of more rows than a picture has: rows x width x height (step_rows.h). 0: there
  // is none.
  int64_t max_shared_pixels = kDefaultSharedPixels;
  std::vector<std::string> skipped_passes;
  pipeline::ComponentModes components;
  pipeline::ComponentDTypes precision;  // dtypes by component; f32 for one not named
  // With the cuda backend: f32 values may be rounded to TF32 before they are multiplied.
  bool tf32 = false;
  // Pictures of more pixels go through the VAE in tiles (core/pipeline/graphs/tiles.h). Unset: none
  // does.
  std::optional<int64_t> vae_tiling_above;
  bool load_waits_for_shared_steps = false;  // Load returns when these are through too
  bool compile_at_start = true;              // else only what can be loaded is; the rest is cold
  bool allow_cold_requests = false;          // COLD_OK requests may; operators always may
  bool forbid_compile_after_ready = false;   // strict: whatever would compile is refused

  // Called for problems that an operator should know and that end no service: a cache folder that
  // cannot be used, an artifact that is damaged. From any thread; must not block. May be empty.
  std::function<void(absl::string_view)> warn = {};
  // False: not of what of the checkpoints is ignored, which another engine says.
  bool warns_of_checkpoints = true;

  // The noise scheduler for requests that name none; empty: the checkpoint's own.
  std::string scheduler = {};
};

enum class State : uint8_t { kLoading, kWarming, kReady, kDegraded, kDraining, kFailed };

// State of the server, for WatchServerStatus and the log.
struct ServerStatus {
  State state = State::kLoading;
  // If kDegraded or kFailed: which bucket, file or device, and why; if kWarming: what is done; if
  // kReady: which requests are refused, if a component is off that most of them need.
  std::string reason;
  std::string device_fault;               // the device's error when it failed; empty: it works
  int graphs_done = 0, graphs_total = 0;  // while warming, of those that READY waits for
  // Step graphs of more rows than a picture has, once the start is through with them.
  struct GraphCount {
    int ready = 0, total = 0;
    bool operator==(const GraphCount&) const = default;
  };
  std::optional<GraphCount> shared_steps;
  struct Bucket {
    pipeline::Size size;
    bool ready = false;  // its graphs are there, or loaded when asked for: nothing is compiled
    std::string reason;  // why not
    bool operator==(const Bucket&) const = default;
  };
  std::vector<Bucket> buckets;
  absl::Time started, ready;  // wall clock; InfiniteFuture: not yet
  bool operator==(const ServerStatus&) const = default;
};

// A kind of work, whichever model does it.
enum class Stage : uint8_t {
  kText,
  kImage,  // the init image, by the VAE
  kSteps,
  kDecode,
  kEncodeFile,
  kPreview  // by a tiny VAE; of no Progress
};

// Events of one request, in this order: Queued+, Started, Progress*, Image+, then Completed or
// Failed, which is the last. Queued comes again when what it says has changed. A Preview comes
// between Started and the Image of its picture, and after the Progress of its step.
struct Queued {
  std::string request_id;
  int position = 0;  // pictures before this one
  // Forecasts; zero where no durations have been measured yet.
  absl::Duration wait;   // until it begins
  absl::Duration total;  // until all of its pictures are drawn
};

struct Started {
  pipeline::Size executed_size;
};

// From when to when, of the clock's monotonic time.
struct Period {
  absl::Duration length() const { return end - begin; }

  absl::Time begin, end;
};

struct Progress {
  int image_index = 0;
  Stage stage = Stage::kText;
  int step = 0;  // 1-based, of total_steps of the whole picture, all models together
  int total_steps = 0;
  std::string model;  // whose work it is, by its name
  // When the device was at it. Nothing: there was no work left, since another picture of the
  // request had it done.
  std::optional<Period> worked = {};
};

// Small image of an unfinished picture. Only where PictureSpec::previews_every asks for it, and
// not for each of those steps: one that is late gives way to the next.
struct Preview {
  int image_index = 0;
  int step = 0;  // as in Progress
  int total_steps = 0;
  pipeline::Size size;
  image::Format format = image::Format::kJpeg;
  std::string bytes;
  std::shared_ptr<const void> unread = nullptr;  // as Image's
};

struct Image {
  int index = 0;
  uint64_t seed = 0;
  pipeline::Size size;
  image::Format format = image::Format::kPng;
  std::string bytes;
  Period encoded = {};  // when it became a file
  // As long as it is kept, `bytes` count as unread (Engine::WaitsForReaders). Null in tests.
  std::shared_ptr<const void> unread = nullptr;
};

// How long that stage took with that model, by its name.
struct StageTime {
  Stage stage = Stage::kText;
  std::string model;
  absl::Duration time;
};

struct Timings {
  void Add(Stage stage, const std::string& model, absl::Duration time);

  absl::Duration queue, total;
  std::vector<StageTime> stages;  // each once, in the order in which they were first added to
};

struct Completed {
  Timings timings;
  // The spec with every default filled in: what was really used.
  pipeline::PictureSpec effective;
  pipeline::Size executed_size;  // the bucket
  int dropped_tokens = 0;        // tokens of the longest prompt beyond the 77 that CLIP reads
  std::vector<std::string> warnings;
};

// CANCELLED after Cancel, DEADLINE_EXCEEDED where the deadline has passed by then or passes before
// the end, INTERNAL, RESOURCE_EXHAUSTED, UNAVAILABLE, ...; details in the status
// (base/error_details.h).
struct Failed {
  absl::Status status;
};

using Event = std::variant<Queued, Started, Progress, Preview, Image, Completed, Failed>;

// Receives the events of one request, one at a time, from threads of the engine. Must not block,
// nor throw: what cannot be sent yet is kept or dropped by the sink.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void OnEvent(Event event) = 0;
};

struct ModelInfo {
  std::string component;  // "base", "refiner"
  std::string path;
  std::string class_name;  // "StableDiffusionXLPipeline"
  std::string family;      // "sdxl"
  pipeline::ModelDefaults defaults;
};

// Properties of the server that bound a client's requests.
struct Capabilities {
  std::vector<ModelInfo> models;
  bool can_refine = false;
  pipeline::Size default_size;          // the bucket nearest to the model's own size
  std::vector<std::string> schedulers;  // short names
  std::string default_scheduler;        // empty: requests have to name one
  int min_side = 64, max_side = 2048, side_multiple = 8;
  int64_t max_pixels = 4 << 20;
  int min_steps = 1, max_steps = 150;
  double max_guidance_scale = 30;
  int max_images_per_prompt = 0;
  int queue_capacity = 0;
  int min_priority = kMinPriority;
  PriorityLimits priorities;
  std::string backend;
  std::vector<ServerStatus::Bucket> buckets;
};

// The unit of work that runs, and has for too long.
struct OverdueUnit {
  std::string request_id;
  int image_index = 0;
  Stage stage = Stage::kText;
  std::string model;
  pipeline::Size executed_size;
  absl::Duration running;
  absl::Duration limit;  // core/engine/unit_watchdog.h
};

// Threads, and a unit, that have run for too long.
struct Hangs {
  bool empty() const { return !unit.has_value() && threads.empty(); }

  std::optional<OverdueUnit> unit;
  std::vector<OverdueThread> threads;  // at anything else
};

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
  // reason DEVICE_FAULT: the device has failed. After OK the state is kReady or kDegraded. A call
  // to Drain makes it return CANCELLED soon.
  virtual absl::Status Load() = 0;

  virtual State state() const = 0;

  virtual ServerStatus status() const = 0;
  // Calls `listener` after every change of status() with what it is then: one call at a time, in
  // the order of the changes (of several that come at once, it may only see the last), from a
  // thread that changes something and goes on once all is told. It must not block and may call any
  // method that does not. Register before Load. Lives as long as the engine.
  using StatusListener = std::function<void(const ServerStatus&)>;
  virtual void OnStatusChange(StatusListener listener) = 0;

  virtual GraphAdmin& graphs() = 0;

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
