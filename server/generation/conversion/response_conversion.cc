#include "server/generation/conversion/response_conversion.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "core/base/text/utf8.h"
#include "core/engine/api/model_name.h"
#include "server/generation/conversion/adapter_conversion.h"
#include "server/generation/conversion/basic_conversion.h"
#include "server/generation/conversion/field_conversion.h"
#include "server/generation/conversion/request_fields.h"

namespace latentd::server::generation {
namespace {

namespace v1 = ::latent::v1;
using generation::ToProto;  // overloads of basic_conversion.h, beside the ones here

v1::Format ToProto(image::Format format) {
  switch (format) {
    case image::Format::kPng:
      return v1::FORMAT_PNG;
    case image::Format::kJpeg:
      return v1::FORMAT_JPEG;
    case image::Format::kWebp:
      return v1::FORMAT_WEBP;
    case image::Format::kRawRgb8:
      return v1::FORMAT_RAW_RGB8;
    case image::Format::kLatent:
      return v1::FORMAT_LATENT;
    case image::Format::kEmbeds:  // no GenerateRequest has it
      break;
  }
  return v1::FORMAT_UNSPECIFIED;
}

v1::Timings ToProto(const engine::Timings& timings) {
  v1::Timings proto;
  *proto.mutable_queue() = ToProto(timings.queue);
  *proto.mutable_total() = ToProto(timings.total);
  for (const engine::StageTime& stage : timings.stages) {
    v1::StageTime& added = *proto.add_stages();
    added.set_stage(generation::ToProto(stage.stage));
    added.set_model(stage.model);
    *added.mutable_time() = ToProto(stage.time);
  }
  return proto;
}

// Only what the format takes, so that the echo can be sent again.
v1::Output ToProto(const image::EncodeOptions& output) {
  v1::Output proto;
  proto.set_format(ToProto(output.format));
  if (output.format == image::Format::kPng) proto.set_embed_parameters(output.embed_parameters);
  if (output.format == image::Format::kJpeg || output.format == image::Format::kWebp) {
    proto.set_quality(output.quality);
  }
  return proto;
}

v1::GenerateRequest ToProto(const pipeline::PictureSpec& picture,
                            const image::EncodeOptions& output) {
  v1::GenerateRequest proto;
  SetFields(picture, proto);
  *proto.mutable_output() = ToProto(output);
  return proto;
}

v1::ModelLora ToProto(const pipeline::AppliedLora& lora) {
  v1::ModelLora proto;
  proto.set_name(ToUtf8(lora.name));
  proto.set_unet_weight(lora.file.unet_weight);
  proto.set_text_encoder_weight(lora.file.text_encoder_weight);
  proto.set_changes(lora.changes);
  proto.set_trigger_phrase(ToUtf8(lora.trigger_phrase));
  proto.set_base_model(ToUtf8(lora.base_model));
  return proto;
}

// The settings of each effort; none caches features for longer than `most`.
void AddEfforts(const pipeline::ModelDefaults& defaults, int most, v1::ModelInfo& proto) {
  using pipeline::Effort, pipeline::GuidanceStop;
  for (const auto& [effort, number] :
       {std::pair(Effort::kFull, v1::EFFORT_FULL), std::pair(Effort::kHigh, v1::EFFORT_HIGH),
        std::pair(Effort::kFast, v1::EFFORT_FAST)}) {
    const pipeline::EffortSettings& settings = defaults.of(effort);
    const bool stops = settings.guidance_stop == GuidanceStop::kAuto;
    v1::EffortSettings& added = *proto.add_efforts();
    added.set_effort(number);
    added.set_guidance_stop(stops ? v1::GUIDANCE_STOP_AUTO : v1::GUIDANCE_STOP_NEVER);
    added.set_feature_cache_interval(std::min(settings.feature_cache_interval, most));
  }
}

v1::ModelInfo ToProto(const engine::ModelInfo& model, int most_feature_cache_interval) {
  v1::ModelInfo proto;
  proto.set_component(model.component);
  proto.set_name(engine::NameOf(model));
  proto.set_class_name(model.class_name);
  proto.set_family(model.family);
  proto.set_default_steps(model.defaults.steps);
  proto.set_default_guidance_scale(model.defaults.guidance_scale);
  proto.set_default_strength(model.defaults.strength);
  proto.set_inpaints(model.inpaints);
  AddEfforts(model.defaults, most_feature_cache_interval, proto);
  proto.set_prompt_embeds_width(model.prompt_embeds_width);
  proto.set_pooled_prompt_embeds_width(model.pooled_prompt_embeds_width);
  proto.set_default_mask_strength(model.defaults.mask_strength);
  proto.set_default_mask_guidance_scale(model.defaults.mask_guidance_scale);
  for (const double timestep : model.defaults.timesteps) proto.add_default_timesteps(timestep);
  proto.set_preset(model.preset);
  proto.set_default_scheduler(model.default_scheduler);
  *proto.mutable_default_size() = ToProto(model.default_size);
  proto.set_residency(ToProto(model.residency));
  proto.set_prediction_type(model.prediction_type);
  proto.set_prediction_decided_by(model.prediction_decided_by);
  for (const pipeline::AppliedLora& lora : model.loras) *proto.add_loras() = ToProto(lora);
  return proto;
}

}  // namespace

v1::Residency ToProto(pipeline::Residency residency) {
  switch (residency) {
    case pipeline::Residency::kPinned:
      return v1::RESIDENCY_PINNED;
    case pipeline::Residency::kReady:
      return v1::RESIDENCY_READY;
    case pipeline::Residency::kOnDemand:
      break;
  }
  return v1::RESIDENCY_ON_DEMAND;
}

v1::Stage ToProto(engine::Stage stage) {
  switch (stage) {
    case engine::Stage::kText:
      return v1::STAGE_TEXT;
    case engine::Stage::kImage:
      return v1::STAGE_IMAGE;
    case engine::Stage::kSteps:
      return v1::STAGE_STEPS;
    case engine::Stage::kDecode:
      return v1::STAGE_DECODE;
    case engine::Stage::kEncodeFile:
      return v1::STAGE_ENCODE_FILE;
    case engine::Stage::kPreview:
      return v1::STAGE_PREVIEW;
  }
  return v1::STAGE_UNSPECIFIED;
}

v1::Queued ToProto(const engine::Queued& queued) {
  v1::Queued proto;
  proto.set_position(queued.position);
  if (queued.total > absl::ZeroDuration()) {
    *proto.mutable_estimated_wait() = ToProto(queued.wait);
    *proto.mutable_estimated_total() = ToProto(queued.total);
  }
  return proto;
}

v1::Started ToProto(const engine::Started& started) {
  v1::Started proto;
  *proto.mutable_executed_size() = ToProto(started.executed_size);
  return proto;
}

v1::Progress ToProto(const engine::Progress& progress) {
  v1::Progress proto;
  proto.set_image_index(progress.image_index);
  proto.set_stage(ToProto(progress.stage));
  proto.set_model(progress.model);
  proto.set_step(progress.step);
  proto.set_total_steps(progress.total_steps);
  return proto;
}

v1::Preview ToProto(engine::Preview preview) {
  v1::Preview proto;
  proto.set_image_index(preview.image_index);
  proto.set_step(preview.step);
  proto.set_total_steps(preview.total_steps);
  *proto.mutable_size() = ToProto(preview.size);
  const absl::string_view mime_type = image::MimeType(preview.format);
  proto.set_mime_type(mime_type.data(), mime_type.size());
  proto.set_data(std::move(preview.bytes));
  return proto;
}

v1::Completed ToProto(const engine::Completed& completed, const image::EncodeOptions& output) {
  v1::Completed proto;
  *proto.mutable_timings() = ToProto(completed.timings);
  *proto.mutable_parameters() = ToProto(completed.effective, output);
  proto.set_dropped_tokens(completed.dropped_tokens);
  proto.set_prompt_tokens(completed.prompt_tokens);
  proto.set_prompt_chunks(completed.prompt_chunks);
  proto.mutable_warnings()->Add(completed.warnings.begin(), completed.warnings.end());
  *proto.mutable_executed_size() = ToProto(completed.executed_size);
  const std::vector<int>& stopped = completed.guidance_stopped_after;
  proto.mutable_guidance_stopped_after()->Add(stopped.begin(), stopped.end());
  proto.set_skipped_rows(completed.skipped_rows);
  proto.set_shallow_evaluations(completed.shallow_evaluations);
  return proto;
}

v1::ImageChunk ToChunk(const engine::Image& image, size_t offset) {
  v1::ImageChunk proto;
  proto.set_index(image.index);
  proto.set_seed(image.seed);
  *proto.mutable_size() = ToProto(image.size);
  const absl::string_view mime_type = image::MimeType(image.format);
  proto.set_mime_type(mime_type.data(), mime_type.size());
  proto.set_offset(static_cast<int64_t>(offset));
  proto.set_total_bytes(static_cast<int64_t>(image.bytes.size()));
  return proto;
}

v1::GetCapabilitiesResponse ToProto(const engine::Capabilities& capabilities,
                                    absl::string_view caller) {
  v1::GetCapabilitiesResponse proto;
  std::set<std::string> of_videos;  // GetVideoCapabilities has them
  for (const engine::ModelInfo& model : capabilities.models) {
    if (model.draws_videos) {
      of_videos.insert(model.component);
    } else {
      *proto.add_models() = ToProto(model, capabilities.max_feature_cache_interval);
    }
  }
  for (const pipeline::AdapterFacts& adapter : capabilities.adapters) {
    *proto.add_adapters() = ToProto(adapter);
  }
  proto.set_can_refine(capabilities.can_refine);
  *proto.mutable_default_size() = ToProto(capabilities.default_size);
  for (const auto& names : capabilities.schedulers) {
    proto.add_schedulers(names.name);
    v1::NoiseScheduler& added = *proto.add_noise_schedulers();
    added.set_name(names.name);
    added.mutable_aliases()->Add(names.aliases.begin(), names.aliases.end());
    added.mutable_grids()->Add(names.grids.begin(), names.grids.end());
  }
  proto.set_default_scheduler(capabilities.default_scheduler);
  proto.set_min_side(capabilities.min_side);
  proto.set_max_side(capabilities.max_side);
  proto.set_side_multiple(capabilities.side_multiple);
  proto.set_max_pixels(capabilities.max_pixels);
  proto.set_min_steps(capabilities.min_steps);
  proto.set_max_steps(capabilities.max_steps);
  proto.set_max_guidance_scale(capabilities.max_guidance_scale);
  proto.set_max_feature_cache_interval(capabilities.max_feature_cache_interval);
  proto.set_max_images_per_prompt(capabilities.max_images_per_prompt);
  proto.set_queue_capacity(capabilities.queue_capacity);
  proto.set_min_priority(capabilities.min_priority);
  proto.set_max_priority(capabilities.priorities.MaxOf(caller));
  proto.set_backend(capabilities.backend);
  for (const engine::ServerStatus::Bucket& bucket : capabilities.buckets) {
    if (of_videos.contains(bucket.model)) continue;
    v1::Bucket& added = *proto.add_buckets();
    *added.mutable_size() = ToProto(bucket.size);
    added.set_ready(bucket.ready);
    added.set_model(bucket.model);
  }
  for (std::string& path : FieldPaths(*v1::GenerateRequest::descriptor())) {
    *proto.add_request_fields() = std::move(path);
  }
  return proto;
}

}  // namespace latentd::server::generation
