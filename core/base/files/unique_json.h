// JSON in which no name stands twice in one object: of two values one reader takes the first and
// another the last, so that they would not agree on what a client has asked for. A checkpoint's
// files may have it (core/base/files/json.h).
//
// Thread-safe: a free function without state.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd {

// As ParseJsonObject, and INVALID_ARGUMENT names what is there twice.
absl::StatusOr<nlohmann::json> ParseUniqueJsonObject(absl::string_view text,
                                                     absl::string_view source, size_t max_bytes);

}  // namespace latentd
