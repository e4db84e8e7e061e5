#include "core/families/svd/svd.h"

#include <memory>
#include <string>
#include <utility>

#include "core/base/errors/status_macros.h"
#include "core/families/family/video_family.h"
#include "core/families/svd/video_configs.h"
#include "core/families/svd/video_graphs.h"
#include "core/families/svd/video_image.h"
#include "core/families/svd/video_spec.h"

namespace latentd::families::svd {
namespace {

using pipeline::Size;

absl::StatusOr<schedulers::SchedulerFile> ReadSchedulerFile(const weights::Checkpoint& checkpoint) {
  ASSIGN_OR_RETURN(const std::string text, checkpoint.SchedulerConfigText());
  const auto found = checkpoint.components().find("scheduler");
  return schedulers::SchedulerFile::Parse(
      text, found == checkpoint.components().end() ? "" : found->second.class_name);
}

// The VAE's encoder is AutoencoderKL's; nothing asks this configuration for a decoder.
networks::AutoencoderKlConfig EncoderOf(const networks::AutoencoderTemporalConfig& vae) {
  networks::AutoencoderKlConfig encoder;
  encoder.latent_channels = vae.latent_channels;
  encoder.block_out_channels = vae.block_out_channels;
  encoder.layers_per_block = vae.layers_per_block;
  encoder.scaling_factor = vae.scaling_factor;
  encoder.force_upcast = vae.force_upcast;
  return encoder;
}

absl::StatusOr<ModelConfigs> ReadModel(const weights::Checkpoint& checkpoint) {
  ASSIGN_OR_RETURN(VideoConfigs video, ReadVideoConfigs(checkpoint));
  ModelConfigs configs;
  ASSIGN_OR_RETURN(configs.scheduler, ReadSchedulerFile(checkpoint));
  configs.prediction_type = std::string(schedulers::NameOf(video.scheduler.prediction_type));
  configs.prediction_decided_by = checkpoint.ConfigName("scheduler");
  configs.unet.in_channels = configs.unet.out_channels = video.vae.latent_channels;
  configs.vae = EncoderOf(video.vae);
  configs.warnings = video.warnings;
  configs.video = std::make_shared<const VideoConfigs>(std::move(video));
  return configs;
}

int FramesOf(const ModelConfigs& configs) {
  return static_cast<int>(configs.video->unet.num_frames);
}

absl::StatusOr<VideoSpec> Resolve(const ModelConfigs& configs, const VideoSpec& spec) {
  return ResolveVideo(*configs.video, spec);
}

absl::StatusOr<device::Buffer> PixelsForEncoder(const ModelConfigs& configs,
                                                const image::Image& image) {
  return EncoderPixels(*configs.video, image);
}

absl::StatusOr<graph::Graph> EncoderGraph(const ModelConfigs& configs) {
  return MakeImageEncoderGraph(*configs.video);
}

absl::StatusOr<graph::Graph> LatentsGraph(const ModelConfigs& configs, int64_t height,
                                          int64_t width) {
  return MakeImageLatentsGraph(*configs.video, height, width);
}

VideoShape ShapeOf(const FramesShape& shape) {
  return {shape.rows, shape.frames, shape.height, shape.width};
}

absl::StatusOr<graph::Graph> StepGraph(const ModelConfigs& configs, const FramesShape& shape) {
  return MakeVideoStepGraph(*configs.video, ShapeOf(shape));
}

absl::StatusOr<graph::Graph> FramesGraph(const ModelConfigs& configs, const FramesShape& shape,
                                         const DecoderPart& part) {
  if (part.number == 0) return MakeFramesGraph(*configs.video, ShapeOf(shape));
  return MakeFramesPartGraph(*configs.video, ShapeOf(shape), part.number, part.dtype);
}

int DecoderParts(const ModelConfigs& configs) {
  return static_cast<int>(networks::DecoderPartsOf(configs.video->vae));
}

device::Shape FeaturesShapeOf(const ModelConfigs& configs, const FramesShape& shape, int part) {
  return FeaturesShape(*configs.video, ShapeOf(shape), part);
}

device::DType DTypeOfLatents(const ModelConfigs& configs, device::DType dtype) {
  return ImageLatentsDType(*configs.video, dtype);
}

constexpr VideoFamily kVideos = {.read = ReadModel,
                                 .frames = FramesOf,
                                 .resolve = Resolve,
                                 .guidance = GuidanceByFrame,
                                 .is_guided = IsGuided,
                                 .time_ids = TimeIdsOf,
                                 .encoder_pixels = PixelsForEncoder,
                                 .vae_pixels = VaePixels,
                                 .encoder_graph = EncoderGraph,
                                 .latents_graph = LatentsGraph,
                                 .step_graph = StepGraph,
                                 .frames_graph = FramesGraph,
                                 .decoder_parts = DecoderParts,
                                 .features_shape = FeaturesShapeOf,
                                 .latents_dtype = DTypeOfLatents};

pipeline::ModelReads ReadsNoPrompt(const ModelConfigs& /*configs*/) {
  return {.negative_prompt = false};
}

int SkipsNoLayer(const ModelConfigs& /*configs*/) { return 0; }

constexpr Size kSizes[] = {{1024, 576}, {576, 1024}};

constexpr absl::string_view kUnetClass[] = {"UNetSpatioTemporalConditionModel"};
constexpr absl::string_view kVaeClass[] = {"AutoencoderKLTemporalDecoder"};
constexpr absl::string_view kImageEncoderClass[] = {"CLIPVisionModelWithProjection"};
constexpr FamilyComponent kComponents[] = {
    {"unet", "diffusers", kUnetClass, /*is_required=*/true},
    {"vae", "diffusers", kVaeClass, /*is_required=*/true},
    {"image_encoder", "transformers", kImageEncoderClass, /*is_required=*/true},
    {"feature_extractor", "transformers"},
};

}  // namespace

constinit const Family kFamily = {.name = "svd",
                                  .title = "Stable Video Diffusion",
                                  .class_prefix = "StableVideoDiffusion",
                                  .starts_from_image = true,
                                  .components = kComponents,
                                  .defaults = {.steps = 25, .guidance_scale = 3},
                                  .sizes = kSizes,
                                  .check = nullptr,
                                  .reads = ReadsNoPrompt,
                                  .max_clip_skip = SkipsNoLayer,
                                  .text_graph = nullptr,
                                  .predict = nullptr,
                                  .row = nullptr,
                                  .videos = &kVideos};

}  // namespace latentd::families::svd
