// Pictures in texts: base64, by itself or in a data URL.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd::server::http {

// The bytes of a picture that is written as base64 (RFC 4648, either alphabet, with or without
// padding and line breaks) or as "data:image/png;base64,...". INVALID_ARGUMENT says what is wrong:
// the server fetches no URL. The message fits behind the field's name.
absl::StatusOr<std::string> PictureOf(absl::string_view text);

}  // namespace latentd::server::http
