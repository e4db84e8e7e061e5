// Between pictures and tensors, by the rule in core/image/pixels.h; and between the size that was
// asked for and the larger one that networks run at, whose centre it is.
#pragma once

#include "core/device/buffer.h"
#include "core/image/pixels.h"
#include "core/pipeline/picture_spec.h"

namespace latentd::pipeline {

// [1, 3, height, width] f32 in [-1, 1].
device::Buffer ToTensor(const image::Image& image);

// REQUIRES: `tensor` is [1, 3, height, width] f32.
image::Image ToImage(const device::Buffer& tensor);

// The middle of the image; where the margins are odd, the right and lower ones are a pixel wider.
// REQUIRES: `size` is no larger than the image.
image::Image CentreCrop(image::Image image, Size size);

// The image in the middle, where CentreCrop finds it again, and its edges' pixels repeated around
// it. REQUIRES: `size` is no smaller than the image.
image::Image ExtendEdges(image::Image image, Size size);

}  // namespace latentd::pipeline
