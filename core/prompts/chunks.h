// Chunks of a prompt: the tokens that a text encoder reads at once, with their weights.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/prompts/parse.h"
#include "core/tokenizer/clip_tokenizer.h"

namespace latentd::prompts {

// In place of the index of a piece.
inline constexpr int kNoPiece = -1;

// A chunk is at most max_length() - 2 tokens of the prompt with start and end token around them,
// filled up with the pad token.
struct Chunk {
  std::vector<int64_t> ids;     // max_length()
  std::vector<double> weights;  // one for each id; those that are none of the prompt's have 1
  std::vector<int> pieces;      // likewise: the index of its piece; kNoPiece for those

  bool has_weights() const;
};

struct Chunks {
  std::vector<Chunk> chunks;  // one at least
  int64_t tokens = 0;         // the prompt's, without start and end
  int64_t dropped = 0;        // tokens of it that are in no chunk
  int cut_piece = kNoPiece;   // piece of the first of these
};

Chunk EmptyChunk(const tokenizer::ClipTokenizer& tokenizer);

// Treatments of a prompt of more tokens than a chunk has.
enum class LongPrompt : uint8_t {
  kTruncate,  // one chunk; the tokens behind it are dropped
  // As many chunks as it takes, kMaxChunks at most, behind which tokens are dropped. Cut as the
  // syntax's original does:
  // without one and A1111's (modules/sd_hijack_clip.py, tokenize_line): behind the last comma, if
  // that is within 20 tokens; and where a piece begins a chunk.
  // ComfyUI's (comfy/sd1_clip.py, tokenize_with_weights): anywhere in a piece of 8 tokens and more,
  // before one of fewer.
  // Compel's (its mode SENTENCES, which is the default): behind the last of . else of . , ; : else
  // behind a word.
  kChunk,
};

// Chunks of a prompt, at most.
inline constexpr int kMaxChunks = 4;

// A word that stands for other tokens than those of its text: as diffusers' and A1111's textual
// inversions are. It is found where no letter and no digit, nor a byte of another character than
// ASCII's, is beside it; and in angle brackets, "<film>", which belong to it then. Upper and lower
// case differ. Of several that begin at one place the longest counts.
struct SpecialWord {
  absl::string_view text;    // not empty
  std::vector<int64_t> ids;  // in its place; of any numbers
};

// INVALID_ARGUMENT, as ParsePrompt's: a piece begins a chunk of its own (BREAK), where kTruncate
// reads one.
absl::StatusOr<Chunks> MakeChunks(absl::Span<const Piece> pieces, Syntax syntax,
                                  LongPrompt long_prompt, const tokenizer::ClipTokenizer& tokenizer,
                                  absl::Span<const SpecialWord> words = {});

}  // namespace latentd::prompts
