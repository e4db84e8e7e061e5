// JSON from a checkpoint's files, which come from anywhere: bounded in size and depth, and without
// nlohmann-json's exceptions.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/files/file_reader.h"

namespace latentd {

// Far beyond what checkpoints have, far below what a recursive reader needs to run out of stack.
inline constexpr int kMaxJsonDepth = 64;

// The one JSON object that `text` is, nested at most kMaxJsonDepth deep. Otherwise, and for more
// than `max_bytes`, INVALID_ARGUMENT that begins with `source` and says where the text goes wrong.
absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text, absl::string_view source,
                                               size_t max_bytes);

// The same of a file, which is the source; NOT_FOUND and such name it too.
absl::StatusOr<nlohmann::json> ReadJsonObject(const std::string& path, size_t max_bytes,
                                              const FileReader& read = ReadFile);

}  // namespace latentd
