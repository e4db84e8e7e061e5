// The parameters of one video, with the names and the defaults of diffusers'
// StableVideoDiffusionPipeline. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace latentd::pipeline {

// How an image of other proportions becomes the video's size: stretched, or its middle.
enum class ResizeMode : uint8_t { kStretch, kCrop };

struct VideoSpec {
  int width = 1024;  // pixels of the video, whatever the image has
  int height = 576;
  std::optional<int> num_frames;  // the checkpoint's
  int num_inference_steps = 25;
  std::vector<double> sigmas;     // core/schedulers/config/schedule_request.h
  double min_guidance_scale = 1;  // guidance of the first frame
  double max_guidance_scale = 3;  // guidance of the last frame
  int fps = 7;                    // the UNet is told one less
  int motion_bucket_id = 127;
  double noise_aug_strength = 0.02;      // noise on the image that the VAE encodes
  std::optional<int> decode_chunk_size;  // frames that are decoded together: all
  uint64_t seed = 0;
  ResizeMode resize_mode = ResizeMode::kStretch;
};

}  // namespace latentd::pipeline
