// Between pictures and tensors, by the rule in core/image/pixels.h.
#pragma once

#include "core/device/buffer.h"
#include "core/image/pixels.h"

namespace latentd::pipeline {

// [1, 3, height, width] f32 in [-1, 1].
device::Buffer ToTensor(const image::Image& image);

// REQUIRES: `tensor` is [1, 3, height, width] f32.
image::Image ToImage(const device::Buffer& tensor);

}  // namespace latentd::pipeline
