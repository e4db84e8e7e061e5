// The configuration in a tokenizer folder, beside its vocabulary: tokenizer_config.json, the older
// special_tokens_map.json and added_tokens.json, and those parts of a tokenizer.json, read as
// transformers 5 reads them.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/files/file_reader.h"
#include "core/tokenizer/tokenizer_json.h"

namespace latentd::tokenizer {

// A token that is found as a whole in a text. "lstrip" and "rstrip" are not kept: the space that
// they take makes no tokens in CLIP anyway.
struct AddedToken {
  std::string content;
  bool normalized = false;  // looked for after normalisation, and normalised itself
  bool special = false;
  bool single_word = false;  // found only where no letter, digit or mark is beside it
  bool may_be_new = false;   // the vocabulary need not have it; it then gets the next free id
};

struct TokenizerConfig {
  std::string start_token = "<|startoftext|>";
  std::string end_token = "<|endoftext|>";
  std::string unknown_token = "<|endoftext|>";
  std::string pad_token = "<|endoftext|>";
  // In the order in which new ones get ids. Of several with one content the last one's flags count.
  std::vector<AddedToken> added_tokens;
  bool split_special_tokens = false;  // special tokens are then ordinary text
  int max_length = 0;                 // at most the limit that was passed in
};

// A missing file is an empty one; `whole` may be null. If tokenizer_config.json has
// "added_tokens_decoder", the older files are not read, nor the added tokens of `whole`; else
// special_tokens_map.json overrides it. INVALID_ARGUMENT names the file, and the field that has a
// wrong type or a value that CLIP's tokenizer does not support.
absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::string& directory,
                                                    const TokenizerJson* whole,
                                                    int max_length_limit, const FileReader& read);

}  // namespace latentd::tokenizer
