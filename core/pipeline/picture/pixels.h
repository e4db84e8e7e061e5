// Between pictures and the bytes that graphs read and give, and between the size that was asked for
// and the larger one that networks run at, whose centre it is.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/process/memory_room.h"
#include "core/device/buffer.h"
#include "core/image/pixels/pixels.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::pipeline {

// Room for a file's pixels as they are drawn, turned as EXIF says, and on their way to another
// size. `name` is for messages. RESOURCE_EXHAUSTED: there is none.
absl::StatusOr<MemoryRoom> TakeRoomForPixels(absl::string_view file, absl::string_view name);

// Decodes the file of a request's field, and adds a warning for each defect that was passed over;
// these, and INVALID_ARGUMENT for what is no image, name the field.
absl::StatusOr<image::Image> DecodeField(absl::string_view file, const std::string& field,
                                         std::vector<std::string>& warnings);

// The bytes of the image as u8 [1, height, width, 3], as the encoder's graph reads them.
device::Buffer ToPixels(image::Image image);

// The middle of such pixels; where the margins are odd, the right and lower ones are a pixel wider.
// REQUIRES: `size` is no larger than the pixels' own.
image::Image CentreOf(const device::Buffer& pixels, Size size);

// The image in the middle, where CentreOf finds it again, and its edges' pixels repeated around
// it. REQUIRES: `size` is no smaller than the image.
image::Image ExtendEdges(image::Image image, Size size);

}  // namespace latentd::pipeline
