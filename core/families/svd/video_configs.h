// The configurations of a Stable Video Diffusion checkpoint's components, read and held against
// each other: img2vid, img2vid-xt and xt-1.1, in diffusers' folder format or the published file.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/networks/autoencoder_temporal.h"
#include "core/networks/config/clip_vision_config.h"
#include "core/networks/config/unet_spatio_temporal_config.h"
#include "core/schedulers/config.h"
#include "core/weights/containers/checkpoint.h"

namespace latentd::families::svd {

// Components, and beginnings of the names of their weights.
inline constexpr char kUnet[] = "unet", kVae[] = "vae", kImageEncoder[] = "image_encoder";

// Pixels a side of the image that the image encoder sees: diffusers' pipeline makes no others.
inline constexpr int kEncodedSide = 224;

// Numbers that the UNet is told: frames per second less 1, motion_bucket_id, noise_aug_strength.
inline constexpr int64_t kTimeIds = 3;

struct VideoConfigs {
  networks::UnetSpatioTemporalConfig unet;
  networks::AutoencoderTemporalConfig vae;
  networks::ClipVisionConfig image_encoder;
  schedulers::SchedulerConfig scheduler;
  // Moves pixels in [0, 1] for the image encoder, and divides them: by red, green and blue.
  std::array<float, 3> image_mean{}, image_std{};
  std::vector<std::string> warnings;  // a sentence for each file of which something is ignored
};

// Errors name the file or component at fault, also where two of them do not fit each other. A
// checkpoint without feature_extractor/preprocessor_config.json has the mean and deviation of CLIP.
absl::StatusOr<VideoConfigs> ReadVideoConfigs(const weights::Checkpoint& checkpoint);

}  // namespace latentd::families::svd
