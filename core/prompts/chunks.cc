#include "core/prompts/chunks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"

namespace latentd::prompts {
namespace {

using tokenizer::ClipTokenizer;

struct WeighedToken {
  int64_t id;
  double weight;
  int piece;
};

using Tokens = std::vector<WeighedToken>;

// True of a byte that a word goes on with.
bool IsOfWord(absl::string_view text, size_t at) {
  if (at >= text.size()) return false;
  const auto byte = static_cast<unsigned char>(text[at]);
  return absl::ascii_isalnum(byte) || !absl::ascii_isascii(byte);
}

// Bytes of the word where it begins at `at`, with angle brackets around it where there are some; 0:
// it does not.
size_t BytesOf(const SpecialWord& word, absl::string_view text, size_t at) {
  const size_t bytes = word.text.size();
  const bool has_bracket = text[at] == '<' && word.text[0] != '<';
  const size_t begin = at + (has_bracket ? 1 : 0), end = begin + bytes;
  if (text.substr(begin, bytes) != word.text) return 0;
  if (has_bracket) return text.substr(end, 1) == ">" ? bytes + 2 : 0;
  const bool is_whole = (at == 0 || !IsOfWord(text, at - 1)) && !IsOfWord(text, end);
  return is_whole ? bytes : 0;
}

// Tokens of texts, with special words among them.
class Lexer {
 public:
  Lexer(const ClipTokenizer& tokenizer, absl::Span<const SpecialWord> words)
      : tokenizer_(tokenizer) {
    for (const SpecialWord& word : words) by_first_[word.text[0]].push_back(&word);
  }

  const ClipTokenizer& tokenizer() const { return tokenizer_; }

  // The tokens of one piece.
  Tokens TokensOf(absl::Span<const Piece> pieces, size_t index) const {
    Tokens tokens;
    const Piece& piece = pieces[index];
    const absl::string_view text = piece.text;
    const auto add = [&](absl::Span<const int64_t> ids) {
      for (const int64_t id : ids) tokens.push_back({id, piece.weight, static_cast<int>(index)});
    };
    size_t begin = 0;
    for (size_t at = 0; at < text.size() && !by_first_.empty();) {
      const auto [word, bytes] = WordAt(text, at);
      if (word != nullptr) {
        add(tokenizer_.Tokenize(text.substr(begin, at - begin)));
        add(word->ids);
        begin = at + bytes;
      }
      at += std::max<size_t>(bytes, 1);
    }
    add(tokenizer_.Tokenize(text.substr(begin)));
    return tokens;
  }

 private:
  // The longest, and its bytes.
  std::pair<const SpecialWord*, size_t> WordAt(absl::string_view text, size_t at) const {
    std::pair<const SpecialWord*, size_t> longest = {nullptr, 0};
    const bool has_bracket = text[at] == '<' && at + 1 < text.size();
    for (const size_t first : {at, at + 1}) {
      if (first > at && !has_bracket) break;
      const auto words = by_first_.find(text[first]);
      if (words == by_first_.end()) continue;
      for (const SpecialWord* word : words->second) {
        const size_t bytes = BytesOf(*word, text, at);
        if (bytes > longest.second) longest = {word, bytes};
      }
    }
    return longest;
  }

  const ClipTokenizer& tokenizer_;
  absl::flat_hash_map<char, std::vector<const SpecialWord*>> by_first_;
};

// REQUIRES: there are no more of them than a chunk has.
Chunk MakeChunk(absl::Span<const WeighedToken> tokens, const ClipTokenizer& tokenizer) {
  Chunk chunk{{tokenizer.start_id()}, {1}, {kNoPiece}};
  for (const auto& [id, weight, piece] : tokens) {
    chunk.ids.push_back(id);
    chunk.weights.push_back(weight);
    chunk.pieces.push_back(piece);
  }
  chunk.ids.push_back(tokenizer.end_id());
  const auto length = static_cast<size_t>(tokenizer.max_length());
  chunk.ids.resize(length, tokenizer.pad_id());
  chunk.weights.resize(length, 1);
  chunk.pieces.resize(length, kNoPiece);
  return chunk;
}

// Cuts a prompt's tokens into chunks.
class Cutter {
 public:
  explicit Cutter(const Lexer& lexer)
      : lexer_(lexer), most_(static_cast<size_t>(tokenizer_.max_length()) - 2) {}

  void CutAtCommas(absl::Span<const Piece> pieces) {
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i].after_break) End();
      for (const WeighedToken& token : lexer_.TokensOf(pieces, i)) AddBehindComma(token);
    }
    if (!tokens_.empty() || chunks_.chunks.empty()) End();
  }

  void CutAtPieces(absl::Span<const Piece> pieces) {
    for (size_t i = 0; i < pieces.size(); ++i) {
      const Tokens all = lexer_.TokensOf(pieces, i);
      auto left = absl::MakeConstSpan(all);
      // Chunks of fewer than 8 tokens, which no CLIP has, cut shorter pieces too.
      const bool is_cut = left.size() >= kLongPiece || left.size() > most_;
      while (left.size() > most_ - tokens_.size()) {
        if (is_cut) Add(left, most_ - tokens_.size());
        End();
      }
      Add(left, left.size());
    }
    End();
  }

  void CutAtSentences(absl::Span<const Piece> pieces) {
    Tokens all;
    for (size_t i = 0; i < pieces.size(); ++i) {
      absl::c_move(lexer_.TokensOf(pieces, i), std::back_inserter(all));
    }
    auto left = absl::MakeConstSpan(all);
    do {
      Add(left, SentenceOf(left));
      End();
    } while (!left.empty());
  }

  Chunks Take() { return std::move(chunks_); }

 private:
  static constexpr size_t kLongPiece = 8;
  static constexpr size_t kCommaDistance = 20;

  int64_t IdOf(absl::string_view sign) const {
    const std::vector<int64_t> ids = tokenizer_.Tokenize(sign);
    return ids.size() == 1 ? ids.front() : -1;
  }

  void AddBehindComma(const WeighedToken& token) {
    if (token.id == comma_) {
      behind_comma_ = tokens_.size() + 1;
    } else if (tokens_.size() == most_ && behind_comma_ > 0 &&
               tokens_.size() - (behind_comma_ - 1) <= kCommaDistance) {
      Tokens moved(tokens_.begin() + static_cast<ptrdiff_t>(behind_comma_), tokens_.end());
      tokens_.resize(behind_comma_);
      End();
      tokens_ = std::move(moved);
    }
    if (tokens_.size() == most_) End();
    tokens_.push_back(token);
  }

  void Add(absl::Span<const WeighedToken>& left, size_t count) {
    tokens_.insert(tokens_.end(), left.begin(), left.begin() + static_cast<ptrdiff_t>(count));
    left.remove_prefix(count);
  }

  // Tokens of the next chunk.
  size_t SentenceOf(absl::Span<const WeighedToken> left) const {
    if (left.size() <= most_) return left.size();
    const int64_t stop = IdOf(".");
    const std::vector<int64_t> signs = {stop, IdOf(","), IdOf(";"), IdOf(":")};
    const auto cut_behind = [&](auto ends) {
      size_t count = most_;
      while (count > 0 && !ends(left[count - 1].id)) --count;
      return count;
    };
    size_t count = cut_behind([&](int64_t id) { return id == stop; });
    if (count == 0)
      count = cut_behind([&](int64_t id) { return absl::c_linear_search(signs, id); });
    if (count == 0) count = cut_behind([&](int64_t id) { return tokenizer_.EndsWord(id); });
    return count == 0 ? most_ : count;
  }

  void End() {
    const auto tokens = static_cast<int64_t>(tokens_.size());
    chunks_.tokens += tokens;
    if (chunks_.chunks.size() == kMaxChunks) {
      if (chunks_.dropped == 0 && tokens > 0) chunks_.cut_piece = tokens_.front().piece;
      chunks_.dropped += tokens;
    } else {
      chunks_.chunks.push_back(MakeChunk(tokens_, tokenizer_));
    }
    tokens_.clear();
    behind_comma_ = 0;
  }

  const Lexer& lexer_;
  const ClipTokenizer& tokenizer_ = lexer_.tokenizer();
  const size_t most_;
  const int64_t comma_ = IdOf(",");
  Chunks chunks_;
  Tokens tokens_;            // tokens of the chunk that has not ended
  size_t behind_comma_ = 0;  // place behind its last comma; 0: it has none
};

// The first chunk.
absl::StatusOr<Chunks> Truncate(absl::Span<const Piece> pieces, const Lexer& lexer) {
  const ClipTokenizer& tokenizer = lexer.tokenizer();
  Tokens all;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].after_break) {
      return absl::InvalidArgumentError(
          "has the word BREAK, which begins another chunk: set long_prompt to CHUNK");
    }
    absl::c_move(lexer.TokensOf(pieces, i), std::back_inserter(all));
  }
  const size_t most = static_cast<size_t>(tokenizer.max_length()) - 2;
  const size_t kept = std::min(all.size(), most);
  return Chunks{{MakeChunk(absl::MakeConstSpan(all).first(kept), tokenizer)},
                static_cast<int64_t>(all.size()),
                static_cast<int64_t>(all.size() - kept),
                kept < all.size() ? all[kept].piece : kNoPiece};
}

}  // namespace

bool Chunk::has_weights() const {
  return absl::c_any_of(weights, [](double weight) { return weight != 1; });
}

Chunk EmptyChunk(const ClipTokenizer& tokenizer) { return MakeChunk({}, tokenizer); }

absl::StatusOr<Chunks> MakeChunks(absl::Span<const Piece> pieces, Syntax syntax,
                                  LongPrompt long_prompt, const ClipTokenizer& tokenizer,
                                  absl::Span<const SpecialWord> words) {
  const Lexer lexer(tokenizer, words);
  // A tokenizer of start and end alone has chunks without room.
  if (long_prompt == LongPrompt::kTruncate || tokenizer.max_length() <= 2) {
    return Truncate(pieces, lexer);
  }
  Cutter cutter(lexer);
  switch (syntax) {
    case Syntax::kNone:
    case Syntax::kA1111:
      cutter.CutAtCommas(pieces);
      break;
    case Syntax::kComfyUi:
      cutter.CutAtPieces(pieces);
      break;
    case Syntax::kCompel:
      cutter.CutAtSentences(pieces);
      break;
  }
  return cutter.Take();
}

}  // namespace latentd::prompts
