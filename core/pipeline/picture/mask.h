// The mask of an image-to-image request, as diffusers' inpainting reads it (VaeImageProcessor with
// do_binarize and do_convert_grayscale): resized as colours, made grey (ITU-R 601), and cut at the
// middle. White is drawn over, black stays.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/device/buffer.h"
#include "core/device/device.h"
#include "core/image/pixels/pixels.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::pipeline {

// Memory of the host.
struct Mask {
  device::Buffer keep;     // u8 [1, H, W, 1]: 1 where the image stays
  device::Buffer latents;  // f32 [1, 1, h, w]: 1 where it is drawn over
  // Differential masks: of each latent the part of the schedule for which the image stays there. 1
  // less the mean of the greys in its middle, as torch resizes without smoothing.
  std::vector<float> stays;
};

// Takes, of an image whose sides are multiples of `downscale`, the pixels of a latent's side. A
// latent is as its upper left pixel: torch's interpolation to the nearest.
Mask MaskOf(const image::Image& image, int downscale);

// A differential mask before the evaluation with so much of the schedule behind it
// (StepCoefficients::passed), like Mask::latents, in pinned memory of the device.
absl::StatusOr<device::Buffer> MaskAt(const Mask& mask, float passed, device::Device& device);

// Decodes a file, and blurs it in its own size by a Gaussian of that radius (diffusers'
// VaeImageProcessor.blur). Errors and `warnings` as DecodeField's.
absl::StatusOr<image::Image> DecodeMask(absl::string_view file, int blur,
                                        std::vector<std::string>& warnings);

}  // namespace latentd::pipeline
