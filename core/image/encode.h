// Pixels to a file's bytes.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/image/format.h"
#include "core/image/pixels/pixels.h"
#include "core/image/pixels/run_parts.h"

namespace latentd::image {

// REQUIRES: image.rgb.size() == width * height * 3, both at least 1 (else INVALID_ARGUMENT).
//
// `parameters` (UTF-8, see parameters.h) says what made the picture; a PNG carries it as an iTXt
// chunk "parameters" if options.embed_parameters says so and it is not empty, other formats carry
// nothing. The same input gives the same bytes, whichever threads run the parts. Throws
// std::bad_alloc where the libraries do not say so. Thread-safe.
absl::StatusOr<std::string> Encode(const Image& image, const EncodeOptions& options,
                                   absl::string_view parameters = {},
                                   const RunParts& run_parts = RunPartsHere);

}  // namespace latentd::image
