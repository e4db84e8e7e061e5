// The engine owns models, graphs, queue and the one loop that runs units of work. It is the only
// header of core/ (with those it includes) that server/ sees; nothing here shows a tensor.
//
// Life: Create -> kLoading -> (Load returns OK) kReady -> (Drain) kDraining -> destroyed; Load
// failing leaves kFailed. Thread-safe: every method may be called from any thread; Submit, Cancel
// and the getters return quickly.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/error_details.h"
#include "core/engine/generate_spec.h"

namespace latentd::engine {

// Filled by server/ from flags and the configuration file.
struct Config {
  std::string base;     // a diffusers checkpoint directory
  std::string refiner;  // the same, or empty
  std::string variant;  // "fp16" reads *.fp16.safetensors; empty: files without a suffix, else fp16
  std::string backend = "cpu";  // "cpu" or "reference"
  int threads = 0;              // for kernels; 0: as many as the process may use
  int64_t memory_bytes = 0;     // budget; 0: what the machine and the cgroup allow
  int queue_capacity = 64;      // pictures waiting, beyond which Submit refuses
};

enum class State : uint8_t { kLoading, kReady, kDraining, kFailed };

enum class Stage : uint8_t { kTextEncode, kVaeEncode, kBase, kRefiner, kVaeDecode, kImageEncode };

// Events of one request, in this order: Queued, Started, Progress*, Image+, then Completed or
// Failed, which is the last.
struct Queued {
  std::string request_id;
  int position = 0;  // pictures before this one
};

struct Started {
  pipeline::Size executed_size;
};

struct Progress {
  int image_index = 0;
  Stage stage = Stage::kTextEncode;
  int step = 0;  // 1-based, of total_steps of the whole picture, both stages together
  int total_steps = 0;
};

struct Image {
  int index = 0;
  uint64_t seed = 0;
  pipeline::Size size;
  image::Format format = image::Format::kPng;
  std::string bytes;
};

struct Timings {
  absl::Duration queue, text_encode, vae_encode, base, refiner, vae_decode, image_encode, total;
};

struct Completed {
  Timings timings;
  // The spec with every default filled in: what was really used.
  pipeline::PictureSpec effective;
  int dropped_tokens = 0;  // of the longest prompt, beyond the 77 that CLIP reads
  std::vector<std::string> warnings;
};

// CANCELLED after Cancel, INTERNAL, RESOURCE_EXHAUSTED, ...; details in the status
// (base/error_details.h).
struct Failed {
  absl::Status status;
};

using Event = std::variant<Queued, Started, Progress, Image, Completed, Failed>;

// Receives the events of one request, one at a time, from threads of the engine. Must not block:
// what cannot be sent yet is kept or dropped by the sink.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void OnEvent(Event event) = 0;
};

struct ModelInfo {
  std::string component;  // "base", "refiner"
  std::string path;
  std::string class_name;  // "StableDiffusionXLPipeline"
};

// What clients can ask for.
struct Capabilities {
  std::vector<ModelInfo> models;
  bool can_refine = false;
  pipeline::Size default_size;
  std::vector<std::string> schedulers;  // diffusers' class names
  std::string default_scheduler;
  int min_side = 64, max_side = 2048, side_multiple = 8;
  int64_t max_pixels = 4 << 20;
  int min_steps = 1, max_steps = 150;
  double max_guidance_scale = 30;
  int max_images_per_prompt = 0;
  int queue_capacity = 0;
  std::string backend;
};

class Engine {
 public:
  // Checks nothing but the configuration's form. `clock` must outlive the engine.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(Config config, const Clock& clock);
  // Cancels what still runs and waits for it.
  virtual ~Engine() = default;

  // Loads checkpoints; blocks; call once. After OK the state is kReady. A call to Drain makes it
  // return CANCELLED soon.
  virtual absl::Status Load() = 0;

  virtual State state() const = 0;

  // REQUIRES: state() was kReady once.
  virtual Capabilities capabilities() const = 0;

  // Every bad field at once; empty if Submit would not refuse the spec as invalid. REQUIRES:
  // state() was kReady once.
  virtual std::vector<FieldViolation> Validate(const GenerateSpec& spec) const = 0;

  // OK (a handle for Cancel) iff the sink will see events, the last of which is Completed or
  // Failed. Otherwise the sink is never called: INVALID_ARGUMENT with every bad field, UNAVAILABLE
  // (reason LOADING or DRAINING, retry delay), RESOURCE_EXHAUSTED (reason QUEUE_FULL with a retry
  // delay, OUT_OF_MEMORY).
  virtual absl::StatusOr<uint64_t> Submit(GenerateSpec spec, std::shared_ptr<EventSink> sink) = 0;

  // The request stops at its next step and ends in Failed(CANCELLED); unknown or finished handles
  // are ignored.
  virtual void Cancel(uint64_t handle) = 0;

  // An upper bound of the bytes that the pictures of this request will have once encoded, for the
  // unary call's limit.
  virtual int64_t MaxResponseBytes(const GenerateSpec& spec) const = 0;

  // No new requests; waits until running ones end or `deadline` (monotonic), then cancels the rest.
  virtual void Drain(absl::Time deadline) = 0;
};

}  // namespace latentd::engine
