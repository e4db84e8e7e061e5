// Bodies of multipart/form-data (RFC 7578), as browsers and OpenAI's clients send files.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd::server::http {

struct Part {
  std::string name;         // the form's field
  bool is_file = false;     // it has a file name
  absl::string_view bytes;  // in the body
};

inline constexpr size_t kMostParts = 64;
inline constexpr size_t kMostTextBytes = 64 << 10;

// True of the media type "multipart/form-data", whatever parameters follow it.
bool IsMultipart(absl::string_view content_type);

// The parts of a body in their order. INVALID_ARGUMENT, reason MALFORMED: the type names no
// boundary, the body does not end with it, a part has no name, there are too many parts or a text
// is too long. `body` outlives the parts.
absl::StatusOr<std::vector<Part>> ParseMultipart(absl::string_view content_type,
                                                 absl::string_view body);

}  // namespace latentd::server::http
