#include "core/engine/reporting.h"

#include "absl/strings/str_format.h"
#include "core/engine/parameters.h"
#include "core/image/encode.h"
#include "core/pipeline/limits.h"

namespace latentd::engine {
namespace {

absl::Duration Timings::*TimeOf(Stage stage) {
  switch (stage) {
    case Stage::kTextEncode:
      return &Timings::text_encode;
    case Stage::kVaeEncode:
      return &Timings::vae_encode;
    case Stage::kBase:
      return &Timings::base;
    case Stage::kRefiner:
      return &Timings::refiner;
    case Stage::kVaeDecode:
      return &Timings::vae_decode;
    case Stage::kImageEncode:
      return &Timings::image_encode;
  }
  return &Timings::total;
}

ModelInfo InfoOf(const pipeline::SdxlModel& model, absl::string_view component) {
  return {std::string(component), model.path(), model.pipeline_class()};
}

}  // namespace

Stage StageOf(const pipeline::Picture& picture) {
  switch (picture.next) {
    case batching::UnitKind::kText:
      return Stage::kTextEncode;
    case batching::UnitKind::kEncode:
      return Stage::kVaeEncode;
    case batching::UnitKind::kStep:
      return picture.model() == pipeline::Model::kBase ? Stage::kBase : Stage::kRefiner;
    case batching::UnitKind::kDecode:
      return Stage::kVaeDecode;
    case batching::UnitKind::kWait:
    case batching::UnitKind::kDone:
      break;
  }
  return Stage::kImageEncode;
}

void AddTime(Timings& timings, Stage stage, absl::Duration duration) {
  timings.*TimeOf(stage) += duration;
}

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
  capabilities.max_images_per_prompt = pipeline::kMaxImagesPerPrompt;
  capabilities.queue_capacity = config.queue_capacity;
  capabilities.backend = config.backend;
  capabilities.buckets = std::move(buckets);
  return capabilities;
}

Completed CompletionOf(const Job& job) {
  const pipeline::PictureSpec& picture = job.spec.picture;
  Completed completed{.timings = job.timings,
                      .effective = picture,
                      .executed_size = *picture.executed_size,
                      .dropped_tokens = job.dropped_tokens,
                      .warnings = job.warnings};
  if (job.dropped_tokens > 0) {
    completed.warnings.push_back(absl::StrFormat(
        "the prompt was cut: its last %d tokens were not read", job.dropped_tokens));
  }
  return completed;
}

int64_t MaxEncodedBytes(pipeline::Size size, image::Format format) {
  // Incompressible pixels, plus rows' and blocks' framing and the parameters with two prompts.
  const int64_t raw = int64_t{size.width} * size.height * 3;
  if (format == image::Format::kRawRgb8) return raw;
  return raw + raw / 64 + size.height + 3 * static_cast<int64_t>(pipeline::kMaxPromptBytes);
}

absl::StatusOr<Image> EncodeImage(const Job& job, int index, uint64_t seed,
                                  const image::Image& pixels) {
  absl::StatusOr<std::string> bytes =
      image::Encode(pixels, job.spec.output, ParametersOf(job.spec.picture, seed));
  if (!bytes.ok()) return bytes.status();
  return Image{
      index, seed, {pixels.width, pixels.height}, job.spec.output.format, *std::move(bytes)};
}

}  // namespace latentd::engine
