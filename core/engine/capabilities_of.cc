#include "core/engine/capabilities_of.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "core/pipeline/spec/presets.h"
#include "core/pipeline/spec/request/limits.h"
#include "core/schedulers/config.h"

namespace latentd::engine {
namespace {

// True if some model that draws hands over to one that does.
bool CanRefine(const pipeline::Pipeline& pipeline) {
  return absl::c_any_of(pipeline.Models(), [&](const pipeline::LoadedModel* model) {
    const std::optional<pipeline::ModelId>& next = model->row().hands_over_to;
    return next.has_value() && pipeline.Draws(*next);
  });
}

}  // namespace

Capabilities CapabilitiesOf(const pipeline::Pipeline& pipeline, const Config& config,
                            std::vector<ServerStatus::Bucket> buckets) {
  Capabilities capabilities;
  for (const pipeline::LoadedModel* model : pipeline.Models()) {
    const pipeline::ModelRow& row = model->row();
    const pipeline::ModelRow& known = pipeline.table()[row.id];
    const families::ModelConfigs& configs = model->configs();
    capabilities.models.push_back(
        {row.name, model->path(), model->pipeline_class(), row.family, row.defaults,
         row.preset == nullptr ? "" : std::string(row.preset->name), configs.inpaints(),
         static_cast<int>(configs.joined_features()), static_cast<int>(configs.pooled_features()),
         configs.prediction_type, configs.prediction_decided_by, known.default_scheduler,
         known.default_size, row.residency, model->loras(), row.draws_videos, row.decode_chunk});
  }
  if (pipeline.adapters() != nullptr) {
    capabilities.adapters = pipeline.adapters()->catalogue().List();
    std::erase_if(capabilities.adapters,
                  [](const pipeline::AdapterFacts& facts) { return !facts.is_served(); });
  }
  capabilities.can_refine = CanRefine(pipeline);
  capabilities.default_size = pipeline.table().first().default_size;
  capabilities.schedulers = schedulers::NamesOfSchedulers();
  capabilities.default_scheduler = pipeline.table().first().default_scheduler;
  capabilities.min_side = pipeline::kMinSide;
  capabilities.max_side = pipeline::kMaxSide;
  capabilities.side_multiple = pipeline.traits().side_multiple;
  capabilities.max_pixels = pipeline::kMaxPixels;
  capabilities.min_steps = pipeline::kMinSteps;
  capabilities.max_steps = pipeline::kMaxSteps;
  capabilities.max_guidance_scale = pipeline::kMaxGuidanceScale;
  if (config.feature_cache) {
    capabilities.max_feature_cache_interval = pipeline::kMaxFeatureCacheInterval;
  }
  capabilities.max_images_per_prompt =
      std::min(pipeline::kMaxImagesPerPrompt, config.queue_capacity);
  capabilities.queue_capacity = config.queue_capacity;
  capabilities.priorities = config.priorities;
  capabilities.backend = config.backend;
  capabilities.buckets = std::move(buckets);
  return capabilities;
}

}  // namespace latentd::engine
