#include "client/options/prompts.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/options/files.h"
#include "client/words/text.h"
#include "core/base/errors/status_macros.h"

namespace latentd::client {
namespace {

constexpr size_t kMaxFileBytes = size_t{16} << 20;
constexpr char kByteOrderMark[] = "\xEF\xBB\xBF";

absl::StatusOr<std::string> ReadText(const std::string& path) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(path, kMaxFileBytes));
  if (absl::StartsWith(text, kByteOrderMark)) text.erase(0, sizeof(kByteOrderMark) - 1);
  // UTF-16 of plain English is UTF-8 with a zero in every other byte.
  if (absl::StrContains(text, '\0') || !IsUtf8(text)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path == "-" ? "standard input" : path, " is not text in UTF-8"));
  }
  return text;
}

absl::string_view WithoutLineEnd(absl::string_view line) {
  absl::ConsumeSuffix(&line, "\n");
  absl::ConsumeSuffix(&line, "\r");
  return line;
}

std::vector<std::string> PromptsOf(absl::string_view text, bool per_line) {
  if (!per_line) return {std::string(WithoutLineEnd(text))};
  std::vector<std::string> prompts;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StripAsciiWhitespace(line).empty()) prompts.emplace_back(WithoutLineEnd(line));
  }
  return prompts;
}

absl::Status CheckSource(const PromptSource& source) {
  if (source.words.empty() && source.file.empty()) {
    return absl::InvalidArgumentError(source.ask);
  }
  if (!source.words.empty() && !source.file.empty()) {
    return absl::InvalidArgumentError("either PROMPT or --prompt-file, not both");
  }
  const bool has_dash = absl::c_linear_search(source.words, "-");
  if (has_dash && source.words.size() > 1) {
    return absl::InvalidArgumentError("- is standard input, and takes no PROMPT beside it");
  }
  if (source.per_line && source.file.empty() && !has_dash) {
    return absl::InvalidArgumentError("--prompt-per-line: goes with --prompt-file, or with -");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadPrompts(const PromptSource& source) {
  const bool none = source.words.empty() && source.file.empty();
  if (none && !source.needed && !source.per_line) return std::vector<std::string>{""};
  RETURN_IF_ERROR(CheckSource(source));
  const bool is_file = !source.file.empty() || source.words.front() == "-";
  if (!is_file) return source.words;
  const std::string path = source.file.empty() ? "-" : source.file;
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  std::vector<std::string> prompts = PromptsOf(text, source.per_line);
  const bool has_one = !prompts.empty() && !prompts.front().empty();
  if (has_one) return prompts;
  return absl::InvalidArgumentError(
      absl::StrCat(path == "-" ? "standard input" : path, " has no prompt"));
}

bool LookLikeOne(const std::vector<std::string>& prompts) {
  return prompts.size() > 1 && std::all_of(prompts.begin(), prompts.end(), [](const auto& prompt) {
           return !absl::StrContains(prompt, ' ');
         });
}

}  // namespace latentd::client
