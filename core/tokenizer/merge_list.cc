#include "core/tokenizer/merge_list.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/tokenizer/json_field.h"

namespace latentd::tokenizer {
namespace {

using ::nlohmann::json;

absl::Status AddLine(absl::string_view line, int64_t number, MergeList* list) {
  const std::vector<std::string> tokens = absl::StrSplit(line, ' ');
  if (tokens.size() != 2 || tokens[0].empty() || tokens[1].empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(list->NameOf(number), " is \"", Excerpt(line),
                     "\"; two tokens with one space between are needed"));
  }
  list->merges.push_back({tokens[0], tokens[1], number});
  return absl::OkStatus();
}

absl::Status AddPair(const json& pair, int64_t number, MergeList* list) {
  const auto is_token = [](const json& value) {
    return value.is_string() && !value.get_ref<const std::string&>().empty();
  };
  if (!pair.is_array() || pair.size() != 2 || !is_token(pair[0]) || !is_token(pair[1])) {
    return Wrong({pair, list->NameOf(number)}, "a pair of tokens");
  }
  list->merges.push_back({pair[0].get<std::string>(), pair[1].get<std::string>(), number});
  return absl::OkStatus();
}

}  // namespace

std::string MergeList::NameOf(int64_t number) const {
  return lines ? absl::StrCat(name, " line ", number) : absl::StrCat(name, "[", number, "]");
}

absl::StatusOr<MergeList> ParseMergesText(absl::string_view text, const std::string& path) {
  MergeList list{.name = path, .lines = true, .merges = {}};
  int64_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripSuffix(line, "\r");
    if (line.empty() || absl::StartsWith(line, "#version")) continue;
    RETURN_IF_ERROR(AddLine(line, number, &list));
  }
  return list;
}

absl::StatusOr<MergeList> ParseMerges(const json& list, const std::string& path) {
  MergeList merges{.name = absl::StrCat(path, ": model.merges"), .lines = false, .merges = {}};
  merges.merges.reserve(list.size());
  for (const json& item : list) {
    const auto number = static_cast<int64_t>(merges.merges.size());
    RETURN_IF_ERROR(item.is_string() ? AddLine(item.get_ref<const std::string&>(), number, &merges)
                                     : AddPair(item, number, &merges));
  }
  return merges;
}

}  // namespace latentd::tokenizer
