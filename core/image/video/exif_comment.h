// The text of parameters.h as EXIF holds it, for files that have no better place.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace latentd::image {

// A TIFF of one user comment in UTF-16, as AUTOMATIC1111's web UI writes it and readers of
// parameters look for it. Bytes that are no UTF-8 are written as ToUtf8 does. REQUIRES: less than
// 2^30 bytes.
std::string ExifComment(absl::string_view text);

}  // namespace latentd::image
