// JSON that comes from files, made safe for nlohmann-json: its exceptions end here, and what is
// handed on is bounded in size and depth.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd::weights {

// Far beyond any config.json, far below what a recursive reader needs to run out of stack.
inline constexpr int kMaxJsonDepth = 64;

// OK iff `text` is one JSON object, nested at most kMaxJsonDepth deep; otherwise INVALID_ARGUMENT
// that says where it goes wrong and begins with `file`.
absl::Status CheckJsonObject(absl::string_view text, const std::string& file);

// A file's text, checked so. INVALID_ARGUMENT also if it is longer than `max_bytes`.
absl::StatusOr<std::string> ReadJsonObject(const std::string& path, size_t max_bytes);

}  // namespace latentd::weights
