// State of a Picture that is a video.
#pragma once

#include <vector>

#include "core/device/buffer.h"
#include "core/image/pixels/pixels.h"

namespace latentd::pipeline {

struct VideoState {
  device::Buffer guidance;       // f32 [1, frames], of the host; since kEncode, as the next
  device::Buffer image_latents;  // f32 [rows, n], of the device: zeros but for the last row
  int decoded = 0;               // frames that are pixels, the first ones
  int parts_done = 0;            // parts of the decoder that are enqueued for the next chunk
  device::Buffer features;       // read by the next of them; no memory where that is the first
  bool redoes_chunk = false;     // the next chunk is decoded again, in float32
  // Frames of the chunk that was decoded last, for its owner to take.
  std::vector<image::Image> frames;
};

}  // namespace latentd::pipeline
