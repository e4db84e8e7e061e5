// UNetSpatioTemporalConditionModel: predicts the noise (or the velocity) in the latents of clips,
// conditioned on one vector of an image, numbers and time.
#pragma once

#include "core/networks/config/unet_spatio_temporal_config.h"
#include "core/networks/layers/layers.h"

namespace latentd::networks {

struct UnetSpatioTemporalInputs {
  Value sample;                 // [n, frames, in_channels, h, w]
  Value timestep;               // f32 [n]; fractions and negative ones are allowed
  Value encoder_hidden_states;  // [n, 1, cross_attention_dim]
  Value time_ids;               // f32 [n, config.time_ids()]
};

// The prediction, [n, frames, out_channels, h, w]. `component` is the prefix of the weights' names
// ("unet"). Any h and w of at least 1 will do: upsampling goes to the size of the skip connection.
//
// Values that depend on encoder_hidden_states and time_ids alone keep their clips in dimension 0,
// so that the request part can be split off (core/graph/split.h). Inputs that do not fit are a
// failure of the builder.
Value UnetSpatioTemporal(GraphBuilder& builder, const UnetSpatioTemporalConfig& config,
                         absl::string_view component, const UnetSpatioTemporalInputs& inputs);

}  // namespace latentd::networks
