// JSON of clients, in which no name stands twice in one object: of two values one reader takes the
// first and another the last, so that they would not agree on what a client has asked for. Their
// number is bounded too: "[]," takes 3 bytes of a text and 16 times as many once it is read, and
// whatever is wrong with each is told. A checkpoint's files may have both (core/base/files/json.h).
//
// Thread-safe: a free function without state.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd {

// Far beyond what clients have to say: pictures are one text each.
inline constexpr size_t kMaxJsonValues = size_t{1} << 16;

// As ParseJsonObject, and INVALID_ARGUMENT names what is there twice, or says that it has more than
// kMaxJsonValues values in the object.
absl::StatusOr<nlohmann::json> ParseUniqueJsonObject(absl::string_view text,
                                                     absl::string_view source, size_t max_bytes);

}  // namespace latentd
