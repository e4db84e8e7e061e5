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

// Conditions that the blocks read. REQUIRES: CheckInputs of the same is OK.
UnetConditions EmbedConditions(const Scope& unet, const Unet2dConditionConfig& config,
                               const Unet2dConditionInputs& inputs);

}  // namespace latentd::networks
