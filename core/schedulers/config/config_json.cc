#include "core/schedulers/config/config_json.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/files/json.h"

namespace latentd::schedulers {
namespace {

constexpr size_t kMaxBytes = 1 << 20;
constexpr absl::string_view kPythonNumbers[] = {"-Infinity", "Infinity", "NaN"};

// The length of the string literal that `text` begins with, quotes included.
size_t StringLength(absl::string_view text) {
  size_t i = 1;
  while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
  return std::min(i + 1, text.size());
}

// Bytes of the first token of `text`, which can be copied as it stands: a string literal, a number
// that JSON has not, or one character.
size_t TokenLength(absl::string_view text) {
  if (text.front() == '"') return StringLength(text);
  for (absl::string_view number : kPythonNumbers) {
    if (absl::StartsWith(text, number)) return number.size();
  }
  return 1;
}

std::string WithPythonNumbersQuoted(absl::string_view text) {
  std::string json;
  json.reserve(text.size());
  while (!text.empty()) {
    const absl::string_view token = text.substr(0, TokenLength(text));
    text.remove_prefix(token.size());
    const bool is_python_number = token.size() > 1 && token.front() != '"';
    absl::StrAppend(&json, is_python_number ? "\"" : "", token, is_python_number ? "\"" : "");
  }
  return json;
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseConfigJson(absl::string_view text, absl::string_view source) {
  return ParseJsonObject(WithPythonNumbersQuoted(text), source, kMaxBytes);
}

}  // namespace latentd::schedulers
