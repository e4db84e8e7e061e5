#include "core/engine/capabilities.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "core/pipeline/components.h"
#include "core/pipeline/limits.h"
#include "core/schedulers/config.h"

namespace latentd::engine {
namespace {

ModelInfo InfoOf(const pipeline::SdxlModel& model, absl::string_view component) {
  return {std::string(component), model.path(), model.pipeline_class()};
}

}  // namespace

Capabilities CapabilitiesOf(const pipeline::Pipeline& pipeline, const Config& config,
                            std::vector<ServerStatus::Bucket> buckets) {
  Capabilities capabilities;
  if (!pipeline::IsOff(config.components, "unet_base")) {
    capabilities.models.push_back(InfoOf(pipeline.base(), "base"));
  }
  if (pipeline.refiner() != nullptr) {
    capabilities.models.push_back(InfoOf(*pipeline.refiner(), "refiner"));
  }
  capabilities.can_refine = pipeline.refiner() != nullptr &&
                            !pipeline::IsOff(config.components, "unet_base") &&
                            !pipeline::IsOff(config.components, "unet_refiner");
  capabilities.default_size = pipeline.traits().default_size;
  capabilities.schedulers = schedulers::SupportedSchedulers();
  capabilities.default_scheduler = pipeline.default_scheduler();
  capabilities.min_side = pipeline::kMinSide;
  capabilities.max_side = pipeline::kMaxSide;
  capabilities.side_multiple = pipeline.traits().side_multiple;
  capabilities.max_pixels = pipeline::kMaxPixels;
  capabilities.min_steps = pipeline::kMinSteps;
  capabilities.max_steps = pipeline::kMaxSteps;
  capabilities.max_guidance_scale = pipeline::kMaxGuidanceScale;
  capabilities.max_images_per_prompt =
      std::min(pipeline::kMaxImagesPerPrompt, config.queue_capacity);
  capabilities.queue_capacity = config.queue_capacity;
  capabilities.priorities = config.priorities;
  capabilities.backend = config.backend;
  capabilities.buckets = std::move(buckets);
  return capabilities;
}

}  // namespace latentd::engine
