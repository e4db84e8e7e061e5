// Capabilities are the models and limits of a server, for its clients. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/engine/api/priority_limits.h"
#include "core/engine/api/status.h"
#include "core/pipeline/spec/models/applied_lora.h"
#include "core/pipeline/spec/models/model_table.h"
#include "core/pipeline/spec/request/adapter.h"
#include "core/pipeline/spec/request/picture_spec.h"
#include "core/schedulers/config.h"

namespace latentd::engine {

struct ModelInfo {
  std::string component;  // "base", "refiner", or its name in --model
  std::string path;
  std::string class_name;  // "StableDiffusionXLPipeline"
  std::string family;      // "sdxl"
  pipeline::ModelDefaults defaults;
  std::string preset;  // whose the defaults are; empty: the family's
  bool inpaints = false;
  // Numbers of each row of its embeddings, and of its pooled ones, of which 0: it has none.
  int prompt_embeds_width = 0, pooled_prompt_embeds_width = 0;
  // The network's prediction, where a request does not say, and what decided it.
  std::string prediction_type, prediction_decided_by;
  std::string default_scheduler;  // empty: requests have to name one
  pipeline::Size default_size;    // the bucket nearest to its own size
  pipeline::Residency residency = pipeline::Residency::kReady;
  std::vector<pipeline::AppliedLora> loras;  // merged into its weights
  bool draws_videos = false;                 // and no pictures
  int decode_chunk = 0;                      // as a ModelRow's
};

// Properties of the server that bound a client's requests.
struct Capabilities {
  std::vector<ModelInfo> models;
  std::vector<pipeline::AdapterFacts> adapters;  // adapters that requests may name
  bool can_refine = false;
  pipeline::Size default_size;  // the bucket nearest to the model's own size
  std::vector<schedulers::SchedulerNames> schedulers;
  std::string default_scheduler;  // empty: requests have to name one
  int min_side = 64, max_side = 2048, side_multiple = 8;
  int64_t max_pixels = 4 << 20;
  int min_steps = 1, max_steps = 150;
  double max_guidance_scale = 30;
  int max_feature_cache_interval = 1;
  int max_images_per_prompt = 0;
  int queue_capacity = 0;
  int min_priority = kMinPriority;
  PriorityLimits priorities;
  std::string backend;
  std::vector<ServerStatus::Bucket> buckets;
};

}  // namespace latentd::engine
