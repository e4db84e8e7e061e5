// ControlNetModel: a copy of a UNet's way down and middle, which reads a hint (edges, depth, a
// pose) beside what the UNet reads, and says what to add to the UNet's skip connections.
//
// ControlNetUnionModel is one for images of several types, and is told the type of each. Of one
// image it is a ControlNet whose hint depends on the type, and whose time embedding has more added
// to it. diffusers puts the image's mean through a transformer beside that of the latents, of which
// each token attends to itself alone (its nn.MultiheadAttention takes rows for the sequence, and
// those of one picture are equal), so that attention is what it makes of the value.
#pragma once

#include <vector>

#include "core/networks/config/control_net_config.h"
#include "core/networks/unet_2d_condition.h"

namespace latentd::networks {

// The hint as ControlNet reads it, [n, channels of the first block, h, w], from an image
// [n, 3, h * config.hint_scale(), w * config.hint_scale()] of red, green and blue from 0 to 1. Of
// no step.
// `types`, of a union, is f32 [n, config.image_types], 1 for the image's type and 0 for all others.
Value ControlNetHint(GraphBuilder& builder, const ControlNetConfig& config,
                     absl::string_view component, Value image, Value types = kNone);

// The embedding of the types of a union's image, [n, config.unet.time_embedding_dim]:
// Unet2dConditionInputs::added_time of its ControlNet. Of no step.
Value ImageTypeEmbedding(GraphBuilder& builder, const ControlNetConfig& config,
                         absl::string_view component, Value types);

// Residuals for Unet2dConditionInputs of a UNet with such blocks: one for each skip connection, in
// order, then the middle's. Inputs of a union have added_time. `hint` has the height and width of
// the sample. Inputs that do not fit are a failure of the builder. What is said there of
// request-rate values holds here too.
std::vector<Value> ControlNet(GraphBuilder& builder, const ControlNetConfig& config,
                              absl::string_view component, const Unet2dConditionInputs& inputs,
                              Value hint);

// Shapes of one row's residuals for a sample of that height and width, in the same order.
std::vector<Shape> ResidualShapes(const Unet2dConditionConfig& unet, int64_t height, int64_t width);

}  // namespace latentd::networks
