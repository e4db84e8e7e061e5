// Init images and masks of requests, as far as their files' headers tell.
//
// Thread-safe: free functions without state.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/errors/error_details.h"
#include "core/pipeline/spec/request/inputs.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::pipeline {

// The size of the init image, if there is one. INVALID_ARGUMENT for one that cannot be read.
absl::StatusOr<std::optional<Size>> ImageSizeOf(const Inputs& inputs);

// Adds what is wrong with the mask, if there is one. One of another size than the image's is fine
// where both are resized to the picture's, and not where a part of the image is cut out by it.
// `image_size` may be null: there is no image, or it cannot be read.
void CheckMaskFile(const Inputs& inputs, const PictureSpec& spec, const Size* image_size,
                   std::vector<FieldViolation>& violations);

}  // namespace latentd::pipeline
