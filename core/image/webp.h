// WebP, through libwebp.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/image/pixels/passed_over.h"
#include "core/image/pixels/pixels.h"

namespace latentd::image {

bool IsWebp(absl::string_view bytes);

// See decode.h.
absl::StatusOr<Dimensions> ReadWebpDimensions(absl::string_view bytes);
absl::StatusOr<Image> DecodeWebp(absl::string_view bytes, PassedOver& passed_over);

// REQUIRES: CheckImage(image); quality in 1..100. Lossy.
absl::StatusOr<std::string> EncodeWebp(const Image& image, int quality);

}  // namespace latentd::image
