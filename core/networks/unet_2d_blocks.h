// The blocks of UNet2DConditionModel: one resolution on the way down, the middle, and one
// resolution on the way up.
#pragma once

#include <string>
#include <vector>

#include "core/networks/config/unet_2d_condition_config.h"

namespace latentd::networks {

// Conditions that all blocks of one evaluation read.
struct UnetConditions {
  Value time;  // [n, time_embedding_dim], activated
  Value text;  // [n, tokens, cross_attention_dim]
};

// Appends the output of every layer, and of the downsampling, to `skips`. The last block does not
// downsample.
Value UnetDownBlock(const Scope& unet, const Unet2dConditionConfig& config, size_t index, Value x,
                    const UnetConditions& conditions, std::vector<Value>& skips);

Value UnetMiddleBlock(const Scope& unet, const Unet2dConditionConfig& config, Value x,
                      const UnetConditions& conditions);

// Takes as many from the end of `skips` as it has layers; upsampling goes to the size of the next
// one, which is twice the size unless an odd size was halved on the way down. `index` counts up
// blocks, from the smallest image.
Value UnetUpBlock(const Scope& unet, const Unet2dConditionConfig& config, size_t index, Value x,
                  const UnetConditions& conditions, std::vector<Value>& skips);

}  // namespace latentd::networks
