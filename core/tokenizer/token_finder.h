// Finds added tokens in a text: the leftmost first, of several at one place the longest. One that
// has to be a word of its own and is not hides what else begins within it, as in the tokenizers
// library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace latentd::tokenizer {

// Frozen after construction; thread-safe.
class TokenFinder {
 public:
  struct Token {
    std::u32string text;
    int64_t id = 0;
    bool single_word = false;  // counts only where no character of a word is beside it
  };
  // Part of a text: an added token, or what lies between two.
  struct Piece {
    std::u32string_view text;
    std::optional<int64_t> id;
  };

  // Tokens without text are left out.
  explicit TokenFinder(std::vector<Token> tokens);

  // The pieces refer to `text`, cover it and are not empty.
  std::vector<Piece> Split(std::u32string_view text) const;

 private:
  const Token* Match(std::u32string_view text) const;

  std::vector<Token> tokens_;  // the longest first
};

}  // namespace latentd::tokenizer
