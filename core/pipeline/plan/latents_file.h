// Latents as a safetensors file with the one tensor "latents".
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/device/buffer.h"
#include "core/device/shape.h"

namespace latentd::pipeline {

// Size of a picture in latents: a latent for each square of pixels.
struct LatentSize {
  int64_t height = 0;
  int64_t width = 0;
};

// F32 [1, C, height, width]: the middle of such latents of the host; where the margins are odd, the
// right and lower ones are a latent wider. REQUIRES: `size` is no larger than the latents' own.
std::string LatentsFile(const device::ConstBuffer& latents, const LatentSize& size);

// How many bytes that file has.
int64_t LatentsFileBytes(int64_t channels, const LatentSize& size);

// Shape of the latents of so many images, [images, channels, height, width], or of videos with
// their frames, [videos, frames, channels, height, width].
device::Shape ImageLatentsShape(int64_t images, int64_t channels, const LatentSize& size);
device::Shape VideoLatentsShape(int64_t videos, int64_t frames, int64_t channels,
                                const LatentSize& size);

// OK: ReadLatentsFile would read it. Copies nothing, where the file has its numbers at multiples of
// their size.
absl::Status CheckLatentsFile(absl::string_view file, const device::Shape& shape);

// F32 of that shape, or of [1, ...] for all images or videos alike, in memory of its own.
// INVALID_ARGUMENT: the file is none, has something else or more, or numbers that are not finite;
// the message says what would be right.
absl::StatusOr<device::Buffer> ReadLatentsFile(absl::string_view file, const device::Shape& shape);

}  // namespace latentd::pipeline
