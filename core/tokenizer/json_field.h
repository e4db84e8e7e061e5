// A value in one of a tokenizer's JSON files, and errors that name it.
//
// Thread-safe: free functions without state.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd::tokenizer {

struct Field {
  const nlohmann::json& value;
  std::string name;  // "path: field"
};

// INVALID_ARGUMENT: "<name> is <value>; <needed> is needed".
absl::Status Wrong(const Field& field, absl::string_view needed);

// A member of an object; `absent` where it is missing or null.
absl::StatusOr<bool> GetBool(const Field& object, const char* key, bool absent);

}  // namespace latentd::tokenizer
