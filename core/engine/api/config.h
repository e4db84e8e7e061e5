// A Config is what an engine is made of; server/ fills it from flags and the configuration file.
// Plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/batching/predict/unit.h"
#include "core/engine/api/priority_limits.h"
#include "core/pipeline/spec/models/components.h"
#include "core/pipeline/spec/models/model_parts.h"
#include "core/pipeline/spec/models/model_table.h"
#include "core/pipeline/spec/models/placement.h"
#include "core/pipeline/spec/request/limits.h"
#include "core/pipeline/spec/request/picture_spec.h"
#include "core/pipeline/spec/step_rows.h"

namespace latentd::engine {

using batching::kMostRows;
using batching::Split;
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
  std::string base;     // a checkpoint: a single file, or a diffusers directory
  std::string refiner;  // the same, or empty
  pipeline::ModelParts base_parts = {}, refiner_parts = {};
  std::vector<pipeline::ModelSource> models = {};  // beside these; base may be empty then
  std::string adapters = {};  // folder of adapters that requests may name; empty: none
  // Sets of LoRAs of linears that images of one step may have, each its own, and the ranks of one
  // at most; with 0 slots, and beyond the ranks, sets are merged.
  int adapter_slots = 0, adapter_ranks = 32;
  std::string variant;  // "fp16" reads *.fp16.safetensors; empty: files without a suffix, else fp16
  std::string backend = "cpu";  // "cpu", "cuda" or "reference"
  // GPUs by their number, of the cuda backend, each once; empty: the first. Of several, each has
  // what is said below of memory and of pictures that wait.
  std::vector<int> devices;
  // When two of several share steps of one image.
  Split split = Split::kNever;
  // Says which models each of several has from the start on.
  pipeline::Placement placement = pipeline::Placement::kAll;
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
  // Graphs are ready for requests with feature_cache_interval.
  bool feature_cache = false;
  // Chunks of prompts, 1 to prompts::kMaxChunks, that graphs are ready for at each bucket.
  int prompt_chunks = 1;
  // Graphs are ready for weights below 1 in Compel's syntax.
  bool prompt_blends = false;
  std::vector<std::string> skipped_passes;
  pipeline::ComponentModes components;
  pipeline::ComponentDTypes precision;  // dtypes by component; f32 for one not named
  bool f8_convolutions = false;         // UNets of 8 bits have convolutions in them, too
  // With the cuda backend: f32 values may be rounded to TF32 before they are multiplied.
  bool tf32 = false;
  // Pictures of more pixels go through the VAE in tiles (core/pipeline/graphs/tiles.h). Unset: none
  // does.
  std::optional<int64_t> vae_tiling_above;
  // Frames of videos that are decoded together, of so many pixels or more, are decoded in parts
  // where there is memory for it (core/pipeline/graphs/model_graphs.h). No flag sets it: the frames
  // are the same.
  int64_t pixels_in_parts = pipeline::kPixelsDecodedInParts;
  bool load_waits_for_shared_steps = false;  // Load returns when these are through too
  bool compile_at_start = true;              // else only what can be loaded is; the rest is cold
  bool allow_cold_requests = false;          // COLD_OK requests may; operators always may
  bool forbid_compile_after_ready = false;   // strict: whatever would compile is refused

  // Called for problems that an operator should know and that end no service: a cache folder that
  // cannot be used, an artifact that is damaged. From any thread; must not block. May be empty.
  std::function<void(absl::string_view)> warn = {};
  // The same for what single files were recognised as, and where components come from. May be
  // empty.
  std::function<void(absl::string_view)> note = {};
  // False: nothing is said of the checkpoints, since another engine does.
  bool warns_of_checkpoints = true;

  // The noise scheduler for requests that name none; empty: the checkpoint's own.
  std::string scheduler = {};
  // The preset of the base (core/pipeline/spec/presets.h); empty: its family's defaults.
  std::string preset = {};
};

}  // namespace latentd::engine
