// PNG: read by libpng, whose errors jump (setjmp), and nothing of that leaves png.cc; written in
// png_encode.cc.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/image/pixels/file_metadata.h"
#include "core/image/pixels/passed_over.h"
#include "core/image/pixels/pixels.h"
#include "core/image/pixels/run_parts.h"

namespace latentd::image {

bool IsPng(absl::string_view bytes);

// See decode.h.
absl::StatusOr<Dimensions> ReadPngDimensions(absl::string_view bytes);
absl::StatusOr<Image> DecodePng(absl::string_view bytes, PassedOver& passed_over);

// See metadata.h; in png_texts.cc.
Metadata ReadPngMetadata(absl::string_view bytes);

// REQUIRES: CheckImage(image). An empty text writes no iTXt chunk; a NUL in it, which the format
// cannot hold, becomes U+FFFD.
absl::StatusOr<std::string> EncodePng(const Image& image, absl::string_view parameters,
                                      const RunParts& run_parts);

}  // namespace latentd::image
