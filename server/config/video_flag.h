// The value of --video: a path, and behind it settings of that model:
//
//   /models/svd-xt,buckets=1024x576x25+576x1024x25,decode-chunk=7
//
// Thread-safe: a free function without state.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/engine/api/config.h"

namespace latentd::server::config {

// The model, by the name "video". INVALID_ARGUMENT names the text, what in it is wrong and what
// would be right.
absl::StatusOr<pipeline::ModelSource> ToVideoModel(const std::string& text);

}  // namespace latentd::server::config
