// UNet2DConditionModel: predicts the noise (or the velocity) in a latent image, conditioned on text
// and time.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/networks/config/unet_2d_condition_config.h"

namespace latentd::networks {

struct Unet2dConditionInputs {
  Value sample;                 // [n, in_channels, h, w]
  Value timestep;               // f32 [n]; fractions are allowed
  Value encoder_hidden_states;  // [n, tokens, cross_attention_dim]
  // Read iff config.text_time.
  Value text_embeds = kNone;  // [n, config.TextEmbedFeatures(ids)]
  Value time_ids = kNone;     // f32 [n, ids]: sizes, crops, aesthetic score
  // Read iff config.time_cond_proj_dim is not 0: in latent consistency models the guidance scale.
  Value timestep_cond = kNone;  // [n, config.time_cond_proj_dim]
  // Added to the time embedding; kNone: nothing is.
  Value added_time = kNone;  // [n, time_embedding_dim]
  // Added to the skip connections, in order, and the last one to what the middle block gives: the
  // sums of what control networks say (control_net.h). Empty: none.
  std::vector<Value> residuals = {};
  // Read beside the text, by each attention to it (cross_attentions.h): images as prompts, for each
  // IP-Adapter (ip_adapter.h). Empty: none.
  std::vector<std::vector<KeysAndValues>> images = {};
  // Called with the deep features, and gives what the network goes on with in their place: the same
  // values, of the same shape. Empty: it goes on with them.
  std::function<Value(Value)> pass_deep = nullptr;
};

// Deep features are all that the two largest resolutions read of the smaller ones: what the last up
// block of those gives, upsampled. They change less from step to step than the rest ("DeepCache",
// arXiv 2312.00858), and all but a third of SDXL's arithmetic is theirs. Of a network of two
// resolutions those of the smaller one; of a single one there are none.
//
// Shape of one row's, for a sample of that height and width; nullopt: the network has none.
std::optional<Shape> DeepShape(const Unet2dConditionConfig& config, int64_t height, int64_t width);

// The prediction, [n, out_channels, h, w]. `component` is the prefix of the weights' names
// ("unet"). Any h and w of at least 1 will do: upsampling goes to the size of the skip connection.
//
// Values that depend on encoder_hidden_states, text_embeds, time_ids and timestep_cond alone keep
// their rows in dimension 0, so that the request part can be split off (core/graph/split.h). Inputs
// that do not fit are a failure of the builder.
Value Unet2dCondition(GraphBuilder& builder, const Unet2dConditionConfig& config,
                      absl::string_view component, const Unet2dConditionInputs& inputs);

}  // namespace latentd::networks
