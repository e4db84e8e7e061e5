// Chunks of a prompt: the tokens that a text encoder reads at once, with their weights.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/prompts/parse.h"
#include "core/tokenizer/clip_tokenizer.h"

namespace latentd::prompts {

// A chunk is at most max_length() - 2 tokens of the prompt with start and end token around them,
// filled up with the pad token.
struct Chunk {
  std::vector<int64_t> ids;     // max_length()
  std::vector<double> weights;  // one for each id; those that are none of the prompt's have 1

  bool has_weights() const;
};

struct Chunks {
  std::vector<Chunk> chunks;  // one at least
  int64_t tokens = 0;         // the prompt's, without start and end
  int64_t dropped = 0;        // tokens of it that are in no chunk
};

Chunk EmptyChunk(const tokenizer::ClipTokenizer& tokenizer);

// The first chunk; the tokens behind it are dropped. INVALID_ARGUMENT, as ParsePrompt's: a piece
// begins a chunk of its own (BREAK).
absl::StatusOr<Chunks> FirstChunk(absl::Span<const Piece> pieces,
                                  const tokenizer::ClipTokenizer& tokenizer);

}  // namespace latentd::prompts
