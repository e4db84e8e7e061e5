#include "core/tokenizer/vocabulary.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/text/text.h"

namespace latentd::tokenizer {
namespace {

// Far above every vocabulary, and far below what a table of embeddings could hold.
constexpr int64_t kMaxId = 1 << 24;

bool IsId(const nlohmann::json& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() <= uint64_t{kMaxId};
}

}  // namespace

absl::StatusOr<Vocabulary> Vocabulary::Parse(const nlohmann::json& object,
                                             const std::string& path) {
  Vocabulary vocabulary;
  vocabulary.path_ = path;
  vocabulary.ids_.reserve(object.size());
  for (const auto& [token, id] : object.items()) {
    if (!IsId(id)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": the id of \"", Excerpt(token), "\" is ", Excerpt(id.dump()),
                       "; a whole number from 0 to ", kMaxId, " is needed"));
    }
    vocabulary.ids_[token] = id.get<int64_t>();
    vocabulary.largest_id_ = std::max(vocabulary.largest_id_, id.get<int64_t>());
  }
  return vocabulary;
}

Vocabulary Vocabulary::Of(std::vector<std::string> tokens, const std::string& path) {
  Vocabulary vocabulary;
  vocabulary.path_ = path;
  vocabulary.ids_.reserve(tokens.size());
  for (std::string& token : tokens)
    vocabulary.ids_.emplace(std::move(token), ++vocabulary.largest_id_);
  return vocabulary;
}

std::optional<int64_t> Vocabulary::Find(absl::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

}  // namespace latentd::tokenizer
