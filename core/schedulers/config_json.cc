#include "core/schedulers/config_json.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace latentd::schedulers {
namespace {

constexpr size_t kMaxBytes = 1 << 20;
constexpr int kMaxDepth = 8;
constexpr absl::string_view kPythonNumbers[] = {"-Infinity", "Infinity", "NaN"};

// The length of the string literal that `text` begins with, quotes included.
size_t StringLength(absl::string_view text) {
  size_t i = 1;
  while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
  return std::min(i + 1, text.size());
}

// What of `text` can be copied as it stands: a string literal, a number that JSON has not, or one
// character.
size_t TokenLength(absl::string_view text) {
  if (text.front() == '"') return StringLength(text);
  for (absl::string_view number : kPythonNumbers) {
    if (absl::StartsWith(text, number)) return number.size();
  }
  return 1;
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseConfigJson(absl::string_view text) {
  if (text.size() > kMaxBytes) return absl::InvalidArgumentError("is larger than 1 MiB");
  std::string json;
  json.reserve(text.size());
  int depth = 0;
  while (!text.empty()) {
    const absl::string_view token = text.substr(0, TokenLength(text));
    text.remove_prefix(token.size());
    const char first = token.front();
    if (first == '{' || first == '[') ++depth;
    if (first == '}' || first == ']') --depth;
    if (depth > kMaxDepth) {
      return absl::InvalidArgumentError(absl::StrCat("nests more than ", kMaxDepth, " deep"));
    }
    const bool is_python_number = token.size() > 1 && first != '"';
    absl::StrAppend(&json, is_python_number ? "\"" : "", token, is_python_number ? "\"" : "");
  }
  nlohmann::json parsed = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return absl::InvalidArgumentError("is not a JSON object");
  return parsed;
}

}  // namespace latentd::schedulers
