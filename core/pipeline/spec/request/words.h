// Words of textual inversions: a prompt that has one reads vectors in place of its tokens. Plain
// data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace latentd::pipeline {

// The vectors of one text encoder, row by row.
struct EmbeddingVectors {
  int64_t width = 0;
  std::vector<float> values;  // count() times width

  int64_t count() const { return width == 0 ? 0 : static_cast<int64_t>(values.size()) / width; }
  absl::Span<const float> row(int64_t index) const {
    return absl::MakeConstSpan(values).subspan(static_cast<size_t>(index * width),
                                               static_cast<size_t>(width));
  }
};

struct Word {
  std::string text;                       // as prompts have it: the last part of its name
  std::string adapter;                    // the name
  std::vector<EmbeddingVectors> vectors;  // by the model's text encoders
};

// Words of a model, in the order of their texts, which are different; never changes.
using Words = std::vector<Word>;
using SharedWords = std::shared_ptr<const Words>;  // null: none

}  // namespace latentd::pipeline
