// Weights below 1 as Compel has them (embeddings_provider.py of compel 2.5.1,
// get_embeddings_for_weighted_prompt_fragments with DownweightMode.MASK, its default): the state of
// a prompt is the mean of that of the prompt as it is, which counts 1, and for each piece of a
// weight w below 1 of that of the same tokens where none attends to the piece's, which counts
// tan((1 - w) 90 degrees). The tokens' weights act on the mean.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstddef>
#include <vector>

#include "core/prompts/chunks.h"

namespace latentd::prompts {

// One more run of the text encoder for a chunk.
struct Blend {
  size_t begin = 0, end = 0;  // places in the chunk that no token attends to
  double share = 0;           // its part of the mean of its state and all before it
};

// By chunk, its blends in their order: from the state of the chunk as it is, state += share * (the
// blend's - state). Pieces that are in no chunk do not count. `long_prompt` is what the chunks were
// made for: the piece that kTruncate cuts hides the end token too, as in Compel.
std::vector<std::vector<Blend>> BlendsOf(const Chunks& chunks, LongPrompt long_prompt);

}  // namespace latentd::prompts
