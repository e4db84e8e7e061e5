// tokenizer.json: a whole tokenizer in one file, as the tokenizers library writes it. All that
// transformers 5 saves of a CLIPTokenizer is this and tokenizer_config.json.
//
// The vocabulary, the merges, the added tokens and the sides of padding and truncation count, as
// for transformers' CLIPTokenizer. The rest of the tokenizer is CLIP's own whatever the file says;
// so a file that says it is another tokenizer is refused.
//
// Thread-safe: free functions without state.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd::tokenizer {

struct TokenizerJson {
  std::string path;
  nlohmann::json vocabulary;       // an object from tokens to ids
  nlohmann::json merges;           // a list
  nlohmann::json added_tokens;     // a list
  nlohmann::json padding_side;     // "right", "left" or null
  nlohmann::json truncation_side;  // the same
};

// `path` is for messages. INVALID_ARGUMENT for text that is no JSON object, or a tokenizer of
// another kind, names what in it is another than CLIP's, and what CLIP's is.
absl::StatusOr<TokenizerJson> ParseTokenizerJson(absl::string_view text, const std::string& path);

}  // namespace latentd::tokenizer
