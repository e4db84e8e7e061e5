#include "core/tokenizer/token_finder.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/tokenizer/unicode.h"

namespace latentd::tokenizer {
namespace {

bool IsWord(std::u32string_view text, size_t begin, size_t end) {
  return (begin == 0 || !IsWordCharacter(text[begin - 1])) &&
         (end == text.size() || !IsWordCharacter(text[end]));
}

}  // namespace

TokenFinder::TokenFinder(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const Token& token) { return token.text.empty(); });
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [](const Token& a, const Token& b) { return a.text.size() > b.text.size(); });
}

std::vector<TokenFinder::Piece> TokenFinder::Split(std::u32string_view text) const {
  std::vector<Piece> pieces;
  size_t begin = 0;  // begin of the text since the last token
  for (size_t i = 0; i < text.size();) {
    const Token* token = Match(text.substr(i));
    if (token == nullptr) {
      ++i;
      continue;
    }
    const size_t end = i + token->text.size();
    if (!token->single_word || IsWord(text, i, end)) {
      if (begin < i) pieces.push_back({text.substr(begin, i - begin), std::nullopt});
      pieces.push_back({text.substr(i, end - i), token->id});
      begin = end;
    }
    i = end;
  }
  if (begin < text.size()) pieces.push_back({text.substr(begin), std::nullopt});
  return pieces;
}

const TokenFinder::Token* TokenFinder::Match(std::u32string_view text) const {
  for (const Token& token : tokens_) {
    if (text.substr(0, token.text.size()) == token.text) return &token;
  }
  return nullptr;
}

}  // namespace latentd::tokenizer
