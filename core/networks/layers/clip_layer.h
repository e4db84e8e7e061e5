// One layer of CLIP's transformers, of texts and of images.
#pragma once

#include "core/networks/layers/layers.h"

namespace latentd::networks {

struct ClipLayerOptions {
  int64_t heads = 1;
  int64_t intermediate_size = 1;
  Activation activation = Activation::kQuickGelu;
  double layer_norm_eps = 1e-5;
  bool causal = false;  // each token attends to itself and the ones before it
  // Added to the scores of attention, [n, tokens, tokens] by query and key; kNone: nothing is.
  Value mask = graph::kNone;
};

// x [n, tokens, features] -> the same. REQUIRES: heads divides features; not both causal and a
// mask.
Value ClipLayer(const Scope& scope, Value x, const ClipLayerOptions& options);

}  // namespace latentd::networks
