#include "core/tokenizer/word_split.h"

#include <cstddef>

#include "core/tokenizer/unicode.h"

namespace latentd::tokenizer {
namespace {

constexpr std::u32string_view kMarkers[] = {U"<|startoftext|>", U"<|endoftext|>"};
constexpr std::u32string_view kContractions[] = {U"'s", U"'t",  U"'re", U"'ve",
                                                 U"'m", U"'ll", U"'d"};
constexpr size_t kBracket = 2;  // "<|" and "|>"

// The length of the candidate that `text` begins with, or 0.
template <size_t n>
size_t MatchPrefix(std::u32string_view text, const std::u32string_view (&candidates)[n]) {
  for (const std::u32string_view candidate : candidates) {
    if (text.substr(0, candidate.size()) == candidate) return candidate.size();
  }
  return 0;
}

size_t RunLength(std::u32string_view text, CharacterClass kind) {
  size_t length = 1;
  while (length < text.size() && Classify(text[length]) == kind) ++length;
  return length;
}

}  // namespace

void SplitWords(std::u32string_view text, absl::FunctionRef<void(std::u32string_view)> word) {
  while (!text.empty()) {
    const CharacterClass kind = Classify(text[0]);
    size_t length = MatchPrefix(text, kMarkers);
    if (length > 0) {
      word(text.substr(0, kBracket));
      word(text.substr(kBracket, length - 2 * kBracket));
      word(text.substr(length - kBracket, kBracket));
    } else {
      length = MatchPrefix(text, kContractions);
      if (length == 0) length = kind == CharacterClass::kNumber ? 1 : RunLength(text, kind);
      if (kind != CharacterClass::kSpace) word(text.substr(0, length));
    }
    text.remove_prefix(length);
  }
}

}  // namespace latentd::tokenizer
