// From checkpoints to a pipeline.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/compiler/graph_store.h"
#include "core/pipeline/pipeline.h"
#include "core/pipeline/spec/models/components.h"
#include "core/pipeline/spec/models/model_parts.h"
#include "core/pipeline/spec/models/placement.h"
#include "core/pipeline/spec/request/limits.h"
#include "core/weights/weight_store.h"

namespace latentd::pipeline {

struct LoadOptions {
  std::string base;     // directory or file; may be empty where there are more
  std::string refiner;  // may be empty
  ModelParts base_parts = {}, refiner_parts = {};
  std::vector<ModelSource> models = {};  // beside these
  // Devices that these models are placed on, by the bytes of their weights, of which this is the
  // one of that number. Empty: each has all.
  std::vector<DeviceRoom> devices = {};
  size_t device = 0;
  // Opened for these models; outlives the pipeline. Null: requests have no adapters.
  adapters::Catalogue* adapters = nullptr;
  int path_slots = 0, path_ranks = 0;  // paths of requests with adapters; ModelOptions has more
  std::string variant;
  int64_t memory_bytes = 0;  // 0: what the machine and the cgroup allow
  // Looked at between components; CANCELLED once it is true.
  const std::atomic<bool>* give_up = nullptr;
  weights::DigestArchive digests;  // kept so that tensors' contents are not read again
  ComponentModes components;
  ComponentDTypes precision;
  bool f8_convolutions = false;     // ModelOptions has more
  bool holds_fp16_in_fp32 = false;  // the backend does
  // Runs the components of kReference. REQUIRES: there, if any is; outlives the pipeline.
  backends::Backend* reference = nullptr;
  std::vector<Size> buckets;                         // picture sizes served; empty: any size
  std::vector<int> row_counts;                       // rows of steps, beside a picture's own
  int64_t max_shared_pixels = kDefaultSharedPixels;  // StepRows has more
  bool split = false;                                // likewise
  bool feature_cache = false;                        // likewise
  int prompt_chunks = 1;                             // ReadyPrompts has both
  bool prompt_blends = false;
  std::optional<int64_t> vae_tiling_above;          // pixels; ModelOptions has more
  int64_t pixels_in_parts = kPixelsDecodedInParts;  // likewise, where there is memory for it
  std::string scheduler;                            // default of models; ModelRow has more
  std::string preset;                               // the base's; empty or "none": none
  // Told of what of the checkpoints is ignored. May be empty.
  std::function<void(absl::string_view)> warn = {};
  // Told what single files were recognised as, and which components come from elsewhere. May be
  // empty.
  std::function<void(absl::string_view)> note = {};
};

// Errors name the directory, file or component at fault, also where a component is off that all
// pictures need. RESOURCE_EXHAUSTED, with the bytes needed and available, if the weights in
// what their components compute in, equal tensors counted once, cannot fit: of models that are
// loaded on demand, those of each alone beside the pinned ones'. `store` and `graphs` must outlive
// the pipeline.
absl::StatusOr<std::unique_ptr<const Pipeline>> LoadPipeline(const LoadOptions& options,
                                                             weights::WeightStore& store,
                                                             compiler::GraphStore& graphs);

}  // namespace latentd::pipeline
