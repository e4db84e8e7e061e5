#include "core/weights/containers/video_file.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/weights/containers/recognize/image_encoder_part.h"
#include "core/weights/containers/recognize/video_unet_part.h"
#include "core/weights/containers/recognize/video_vae_part.h"

namespace latentd::weights {
namespace {

// As published beside it, in diffusers' folder.
std::string VideoSchedulerConfig() {
  const nlohmann::json config = {{"_class_name", "EulerDiscreteScheduler"},
                                 {"beta_end", 0.012},
                                 {"beta_schedule", "scaled_linear"},
                                 {"beta_start", 0.00085},
                                 {"interpolation_type", "linear"},
                                 {"num_train_timesteps", 1000},
                                 {"prediction_type", "v_prediction"},
                                 {"sigma_max", 700.0},
                                 {"sigma_min", 0.002},
                                 {"steps_offset", 1},
                                 {"timestep_spacing", "leading"},
                                 {"timestep_type", "continuous"},
                                 {"use_karras_sigmas", true}};
  return config.dump(2);
}

}  // namespace

absl::StatusOr<SingleFile> RecognizeVideoFile(const std::string& path, const TensorMap& tensors) {
  SingleFile file;
  file.pipeline_class = "StableVideoDiffusionPipeline";
  file.scheduler_config = VideoSchedulerConfig();
  file.prediction_decided_by = "its family";
  ASSIGN_OR_RETURN(VideoUnetPart unet, ReadVideoUnet(path, tensors));
  file.parts["unet"] = {{"diffusers", "UNetSpatioTemporalConditionModel"},
                        std::move(unet.config),
                        std::move(unet.sources)};
  ASSIGN_OR_RETURN(std::optional<VideoVaePart> vae, ReadVideoVae(path, tensors));
  if (vae) {
    file.parts["vae"] = {{"diffusers", "AutoencoderKLTemporalDecoder"},
                         std::move(vae->config),
                         std::move(vae->sources)};
  } else {
    file.lacking.push_back("vae");
  }
  ASSIGN_OR_RETURN(std::optional<ImageEncoderPart> encoder, ReadImageEncoder(path, tensors));
  if (encoder) {
    file.parts["image_encoder"] = {{"transformers", "CLIPVisionModelWithProjection"},
                                   std::move(encoder->config),
                                   std::move(encoder->sources)};
  } else {
    file.lacking.push_back("image_encoder");
  }
  file.notes.push_back(
      absl::StrCat(path,
                   ": is Stable Video Diffusion; a file does not say of how many frames, which are "
                   "taken for 25, as of xt: of 14, name them in its buckets"));
  return file;
}

}  // namespace latentd::weights
