// The formats of an encoded image.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace latentd::image {

enum class Format : uint8_t {
  kPng,
  kJpeg,
  kWebp,
  kRawRgb8,  // height x width x 3 bytes, no header
  kLatent,   // no pixels, but what they are decoded of
  kEmbeds,   // nor those, but what prompts are encoded to
};

// "image/png"; raw pixels, latents and embeddings are "application/octet-stream".
absl::string_view MimeType(Format format);

struct EncodeOptions {
  Format format = Format::kPng;
  int quality = 90;  // 1..100, JPEG and WebP only
  // Write what made the picture into a PNG, as an iTXt chunk "parameters".
  bool embed_parameters = true;
};

}  // namespace latentd::image
