// The image of a video, as its two networks see it.
//
// Pure functions.
#pragma once

#include "absl/status/statusor.h"
#include "core/device/buffer.h"
#include "core/families/svd/video_configs.h"
#include "core/image/pixels/pixels.h"

namespace latentd::families::svd {

// For the image encoder: f32 [1, 3, 224, 224], from the image in its own size
// (core/image/pixels/antialias.h), normed and not clamped. INVALID_ARGUMENT as of
// ResizeAntialiased.
absl::StatusOr<device::Buffer> EncoderPixels(const VideoConfigs& configs,
                                             const image::Image& image);

// For the VAE: u8 [1, height, width, 3], as Pillow resizes it with LANCZOS; aspect ratio is not
// kept. INVALID_ARGUMENT as of ResizeLanczos.
absl::StatusOr<device::Buffer> VaePixels(const image::Image& image, int width, int height);

}  // namespace latentd::families::svd
