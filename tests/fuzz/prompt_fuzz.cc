// libFuzzer target: a byte for the syntax, then any bytes as a prompt, which is cut into chunks.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/prompts/blends.h"
#include "core/prompts/chunks.h"
#include "core/prompts/parse.h"
#include "core/tokenizer/clip_tokenizer.h"

namespace {

// All hide some tokens, and never the first place, so that each token attends to something.
void CheckBlends(const latentd::prompts::Chunks& chunks) {
  const auto all = latentd::prompts::BlendsOf(chunks, latentd::prompts::LongPrompt::kChunk);
  if (all.size() != chunks.chunks.size()) std::abort();
  for (const auto& blends : all) {
    for (const latentd::prompts::Blend& blend : blends) {
      if (blend.begin < 1 || blend.end <= blend.begin || blend.end > 76) std::abort();
      if (!(blend.share > 0 && blend.share < 1)) std::abort();
    }
  }
}

// Every token of the prompt is in a chunk, or counted as dropped.
void CheckChunks(const std::vector<latentd::prompts::Piece>& pieces,
                 latentd::prompts::Syntax syntax) {
  static const auto& tokenizer =
      *latentd::tokenizer::ClipTokenizer::BuiltIn("<|endoftext|>").value().release();
  const auto chunks =
      latentd::prompts::MakeChunks(pieces, syntax, latentd::prompts::LongPrompt::kChunk, tokenizer);
  if (!chunks.ok() || chunks->chunks.empty()) std::abort();
  if (chunks->chunks.size() > latentd::prompts::kMaxChunks) std::abort();
  int64_t tokens = 0;
  for (const latentd::prompts::Piece& piece : pieces) {
    tokens += static_cast<int64_t>(tokenizer.Tokenize(piece.text).size());
  }
  if (chunks->tokens != tokens || chunks->dropped > tokens) std::abort();
  for (const latentd::prompts::Chunk& chunk : chunks->chunks) {
    if (chunk.ids.size() != 77 || chunk.weights.size() != 77) std::abort();
  }
  CheckBlends(*chunks);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto syntax = static_cast<latentd::prompts::Syntax>(data[0] % 4);
  const auto pieces = latentd::prompts::ParsePrompt(text, syntax);
  if (!pieces.ok()) return 0;
  if (pieces->empty()) std::abort();
  size_t bytes = 0;
  for (const latentd::prompts::Piece& piece : *pieces) {
    if (!std::isfinite(static_cast<float>(piece.weight))) std::abort();
    bytes += piece.text.size();
  }
  // Compel puts spaces behind commas and between words.
  if (bytes > 4 * text.size()) std::abort();
  CheckChunks(*pieces, syntax);
  return 0;
}
