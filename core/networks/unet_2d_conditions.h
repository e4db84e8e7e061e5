// Everything that a UNet2DConditionModel and its ControlNets read beside the image: checked, and
// embedded.
#pragma once

#include "absl/status/status.h"
#include "core/networks/unet_2d_blocks.h"
#include "core/networks/unet_2d_condition.h"

namespace latentd::networks {

// INVALID_ARGUMENT for an input that is missing or has another shape than the config asks for.
// Sizes that the inputs may choose (rows, height, width, tokens, ids) are taken from where they are
// first seen.
absl::Status CheckInputs(const GraphBuilder& builder, const Unet2dConditionConfig& config,
                         const Unet2dConditionInputs& inputs);

// Sinusoids of times, sizes or other numbers, [n] -> [n, dim].
Value Sinusoids(GraphBuilder& builder, const Unet2dConditionConfig& config, Value numbers,
                int64_t dim);

// Conditions that the blocks read. REQUIRES: CheckInputs of the same is OK.
UnetConditions EmbedConditions(const Scope& unet, const Unet2dConditionConfig& config,
                               const Unet2dConditionInputs& inputs);

}  // namespace latentd::networks
