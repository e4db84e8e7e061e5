// Transformer2DModel over images: the pixels of an image become tokens that attend to each other
// and to the text.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "core/networks/layers/layers.h"

namespace latentd::networks {

enum class Projection : uint8_t { kConvolution, kLinear };
enum class FirstAttention : uint8_t { kToItself, kToText };

struct Transformer2dOptions {
  int64_t heads = 8;
  int64_t layers = 1;
  int64_t groups = 32;
  Projection projection = Projection::kConvolution;            // use_linear_projection
  FirstAttention first_attention = FirstAttention::kToItself;  // only_cross_attention
  bool upcast_attention = false;
};

// x [n, c, h, w]; text [n, tokens, features]. Keys and values of the text depend on `text` alone.
// `images`: what the attention to the text of each layer reads beside it; empty: nothing.
// REQUIRES: heads <= c.
Value Transformer2d(const Scope& scope, Value x, Value text, const Transformer2dOptions& options,
                    absl::Span<const std::vector<KeysAndValues>> images = {});

}  // namespace latentd::networks
