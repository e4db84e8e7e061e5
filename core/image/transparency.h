// Transparency of a file's pixels, which Decode drops, as the mask that inpainting reads.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd::image {

// A mask as OpenAI's clients send one: what is transparent is drawn over.
struct TransparencyMask {
  // The same size, white where the file is transparent, black where it is not.
  std::string png;
  bool draws_all = false;  // every pixel is wholly transparent
};

// Reads a PNG or a WebP that is no animation; what is half transparent is grey.
//
// INVALID_ARGUMENT, with the reason: a file without transparency, or what Decode refuses; of a file
// that is damaged Decode may take more. Never allocates more than a small multiple of the pixels.
// Thread-safe.
absl::StatusOr<TransparencyMask> MaskOfTransparency(absl::string_view bytes);

}  // namespace latentd::image
