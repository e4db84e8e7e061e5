// CLIPVisionModelWithProjection: an image to one vector in the space that CLIP's texts are in.
#pragma once

#include <cstdint>

#include "core/networks/config/clip_vision_config.h"

namespace latentd::networks {

// pixels [n, num_channels, image_size, image_size], normed as the checkpoint's
// preprocessor_config.json says -> [n, projection_dim]. `component` is the prefix of the weights'
// names ("image_encoder"). Pixels that do not fit are a failure of the builder.
Value ClipVision(GraphBuilder& builder, const ClipVisionConfig& config, absl::string_view component,
                 Value pixels);

// States of all tokens behind all layers but so many of the last, [n, config.tokens(),
// hidden_size], of such pixels. REQUIRES: left_out < num_hidden_layers.
Value ClipVisionStates(GraphBuilder& builder, const ClipVisionConfig& config,
                       absl::string_view component, Value pixels, int64_t left_out);

}  // namespace latentd::networks
