// Textual inversions: files with vectors that stand in prompts for a word, each vector for one
// token's. Every layout of safetensors that programs write is read:
//
//   one tensor of any name      diffusers (the name is its token), and A1111's "emb_params"
//   clip_l and clip_g           SDXL: of the first and of the second text encoder
//   text_encoders_0 and _1      the same, by trainers of pivotal tuning
//
// The tensor's own name is never the word: that is the file's, as its operator knows it.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/pipeline/spec/request/words.h"
#include "core/weights/stored_tensor.h"

namespace latentd::adapters {

// A prompt has no more tokens in a chunk.
inline constexpr int64_t kMostVectors = 75;

using pipeline::EmbeddingVectors;

struct Embedding {
  // For the only encoder of a model; or for the first and the second one. Without values: it has
  // none for that.
  EmbeddingVectors only, first, second;

  // Tokens that it stands for, at most.
  int64_t most_vectors() const;
};

// True of tensors as only a textual inversion has them.
bool IsEmbedding(const weights::TensorMap& tensors);

// Reads all of it. INVALID_ARGUMENT begins with `path`: a shape or a dtype that is no vectors',
// values that are not finite, no vectors or more than kMostVectors. REQUIRES: IsEmbedding.
absl::StatusOr<Embedding> ReadEmbedding(const std::string& path, const weights::TensorMap& tensors);

// A text encoder of a model.
struct TextEncoderWidth {
  std::string component;  // "text_encoder", "text_encoder_2"
  int64_t width = 0;      // features of a token

  bool operator==(const TextEncoderWidth&) const = default;
};

// The vectors for each of the model's encoders. INVALID_ARGUMENT begins with `path`: one of the
// encoders has none, or of another width.
absl::StatusOr<std::vector<EmbeddingVectors>> VectorsFor(
    const std::string& path, const Embedding& embedding,
    absl::Span<const TextEncoderWidth> encoders);

}  // namespace latentd::adapters
