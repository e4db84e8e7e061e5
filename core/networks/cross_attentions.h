// The attentions of a UNet2DConditionModel to its text: attn2 of each layer of its transformers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/networks/config/unet_2d_condition_config.h"

namespace latentd::networks {

struct CrossAttention {
  // Path of its module: "down_blocks.1.attentions.0.transformer_blocks.0.attn2".
  std::string path;
  int64_t features = 0;  // width of its queries, keys and values
  bool is_middle = false;
};

// In the order of an evaluation: down, middle, up.
std::vector<CrossAttention> CrossAttentionsOf(const Unet2dConditionConfig& config);

}  // namespace latentd::networks
