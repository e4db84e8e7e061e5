#include "core/tokenizer/clip_vocabulary.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/tokenizer/byte_pair_model.h"
#include "core/tokenizer/tokenizer_config.h"

namespace latentd::tokenizer {

Vocabulary VocabularyOf(const MergeList& merges) {
  std::array<std::string, 256> bytes = ByteNames();
  std::sort(bytes.begin(), bytes.end());  // UTF-8 sorts as the characters do
  std::vector<std::string> tokens(bytes.begin(), bytes.end());
  for (const std::string& byte : bytes) tokens.push_back(absl::StrCat(byte, kWordEnd));
  for (const MergeList::Merge& merge : merges.merges) {
    tokens.push_back(absl::StrCat(merge.left, merge.right));
  }
  const TokenizerConfig config;
  tokens.push_back(config.start_token);
  tokens.push_back(config.end_token);
  return Vocabulary::Of(std::move(tokens), merges.name);
}

}  // namespace latentd::tokenizer
