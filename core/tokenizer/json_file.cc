#include "core/tokenizer/json_file.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace latentd::tokenizer {
namespace {

using ::nlohmann::json;

constexpr int kMaxDepth = 32;

// How deep brackets nest outside strings; for text that is not JSON, some number.
int Depth(absl::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '{' || c == '[')) {
      deepest = std::max(deepest, ++depth);
    } else if (!in_string && (c == '}' || c == ']')) {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

absl::StatusOr<json> ReadJsonObject(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxFileBytes));
  if (Depth(text) > kMaxDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " nests more than ", kMaxDepth, " levels deep"));
  }
  json value = json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not valid JSON"));
  }
  if (!value.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " holds a JSON ", value.type_name(), "; an object is needed"));
  }
  return value;
}

absl::StatusOr<json> ReadOptionalJsonObject(const std::string& path) {
  absl::StatusOr<json> value = ReadJsonObject(path);
  if (absl::IsNotFound(value.status())) return json::object();
  return value;
}

}  // namespace latentd::tokenizer
