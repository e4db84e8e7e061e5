// JPEG, through libjpeg. Its errors jump (setjmp); nothing of that leaves jpeg.cc.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/image/pixels/passed_over.h"
#include "core/image/pixels/pixels.h"

namespace latentd::image {

bool IsJpeg(absl::string_view bytes);

// See decode.h.
absl::StatusOr<Dimensions> ReadJpegDimensions(absl::string_view bytes);
absl::StatusOr<Image> DecodeJpeg(absl::string_view bytes, PassedOver& passed_over);

// REQUIRES: CheckImage(image); quality in 1..100. Chroma is halved in both directions, libjpeg's
// default.
absl::StatusOr<std::string> EncodeJpeg(const Image& image, int quality);

}  // namespace latentd::image
