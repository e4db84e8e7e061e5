#include "core/tokenizer/token_finder.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace latentd::tokenizer {

TokenFinder::TokenFinder(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const Token& token) { return token.text.empty(); });
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [](const Token& a, const Token& b) { return a.text.size() > b.text.size(); });
}

std::vector<TokenFinder::Piece> TokenFinder::Split(std::u32string_view text) const {
  std::vector<Piece> pieces;
  size_t begin = 0;  // of what lies between
  for (size_t i = 0; i < text.size();) {
    const Token* token = Match(text.substr(i));
    if (token == nullptr) {
      ++i;
      continue;
    }
    if (begin < i) pieces.push_back({text.substr(begin, i - begin), std::nullopt});
    pieces.push_back({text.substr(i, token->text.size()), token->id});
    i += token->text.size();
    begin = i;
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
