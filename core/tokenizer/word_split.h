// Splitting of text into words, for CLIP.
//
// Thread-safe: free functions without state.
#pragma once

#include <string_view>

#include "absl/functional/function_ref.h"

namespace latentd::tokenizer {

// Calls `word` for each word of a normalised text, from left to right: one of 's 't 're 've 'm 'll
// 'd, a run of letters, one number, or a run of anything else but space. The text
// "<|startoftext|>" and its counterpart are cut out first and fall into "<|", the letters and "|>":
// CLIP's pattern finds them whole, and the byte-level splitter behind it divides them.
void SplitWords(std::u32string_view text, absl::FunctionRef<void(std::u32string_view)> word);

}  // namespace latentd::tokenizer
