// JSON files of a checkpoint's tokenizer folder, from somebody who is not trusted.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"

namespace latentd::tokenizer {

// CLIP's own files have about 1 MB.
inline constexpr size_t kMaxFileBytes = size_t{32} << 20;

// The object in the file. NOT_FOUND for a missing file; INVALID_ARGUMENT for one that is too large,
// is not JSON, nests more than 32 deep or holds something else than an object. Errors name the
// path.
absl::StatusOr<nlohmann::json> ReadJsonObject(const std::string& path);

// The same, and an empty object for a missing file.
absl::StatusOr<nlohmann::json> ReadOptionalJsonObject(const std::string& path);

}  // namespace latentd::tokenizer
