#include "core/prompts/chunks.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"

namespace latentd::prompts {
namespace {

using tokenizer::ClipTokenizer;

struct WeighedToken {
  int64_t id;
  double weight;
};

std::vector<WeighedToken> TokensOf(const Piece& piece, const ClipTokenizer& tokenizer) {
  std::vector<WeighedToken> tokens;
  for (const int64_t id : tokenizer.Tokenize(piece.text)) tokens.push_back({id, piece.weight});
  return tokens;
}

// REQUIRES: there are no more of them than a chunk has.
Chunk MakeChunk(absl::Span<const WeighedToken> tokens, const ClipTokenizer& tokenizer) {
  Chunk chunk{{tokenizer.start_id()}, {1}};
  for (const auto& [id, weight] : tokens) {
    chunk.ids.push_back(id);
    chunk.weights.push_back(weight);
  }
  chunk.ids.push_back(tokenizer.end_id());
  const auto length = static_cast<size_t>(tokenizer.max_length());
  chunk.ids.resize(length, tokenizer.pad_id());
  chunk.weights.resize(length, 1);
  return chunk;
}

}  // namespace

bool Chunk::has_weights() const {
  return absl::c_any_of(weights, [](double weight) { return weight != 1; });
}

Chunk EmptyChunk(const ClipTokenizer& tokenizer) { return MakeChunk({}, tokenizer); }

absl::StatusOr<Chunks> FirstChunk(absl::Span<const Piece> pieces, const ClipTokenizer& tokenizer) {
  std::vector<WeighedToken> all;
  for (const Piece& piece : pieces) {
    if (piece.after_break) {
      return absl::InvalidArgumentError(
          "has the word BREAK, which begins another chunk of tokens, where one is read");
    }
    absl::c_move(TokensOf(piece, tokenizer), std::back_inserter(all));
  }
  const size_t most = static_cast<size_t>(tokenizer.max_length()) - 2;
  const size_t kept = std::min(all.size(), most);
  return Chunks{{MakeChunk(absl::MakeConstSpan(all).first(kept), tokenizer)},
                static_cast<int64_t>(all.size()),
                static_cast<int64_t>(all.size() - kept)};
}

}  // namespace latentd::prompts
