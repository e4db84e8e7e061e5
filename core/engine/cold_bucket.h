// What a request is told whose size is not ready and would have to be compiled.
//
// Thread-safe: free functions without state.
#pragma once

#include "absl/status/status.h"
#include "core/pipeline/picture_spec.h"

namespace latentd::engine {

// Whether the graph store refused to compile.
bool IsCold(const absl::Status& status);

// FAILED_PRECONDITION: COMPILE_FORBIDDEN where the picture's policy would compile, else
// BUCKET_COLD.
absl::Status ColdBucket(const pipeline::PictureSpec& picture, const absl::Status& why);

}  // namespace latentd::engine
