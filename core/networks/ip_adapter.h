// IP-Adapter: an image as a prompt. Its tokens are projected from what an image encoder says of
// it, and read by attentions of their own beside those to the text.
#pragma once

#include <cstdint>
#include <vector>

#include "core/networks/config/unet_2d_condition_config.h"

namespace latentd::networks {

// Features of a resampler's heads.
inline constexpr int64_t kResamplerHead = 64;

struct IpAdapterConfig {
  enum class Projection : uint8_t {
    kLinear,     // base: of the encoder's embedding of the image
    kResampler,  // plus: of states of the image's patches, by attention of learned queries
  };

  Projection projection = Projection::kLinear;
  int64_t image_features = 1024;  // width of the embedding, or of a patch's state
  int64_t tokens = 4;             // tokens that an image becomes
  int64_t text_features = 2048;   // width of a token, as of the text's
  // Widths of a resampler's queries and hidden layers.
  int64_t width = 1280;
  int64_t heads = 20;
  int64_t hidden = 5120;
  int64_t layers = 4;
};

// Weights have the names of the files: image_proj.… The embedding [n, image_features], or states
// [n, patches, image_features] -> tokens [n, tokens, text_features].
Value ImageTokens(GraphBuilder& builder, const IpAdapterConfig& config, absl::string_view component,
                  Value image);

// Keys and values of tokens [n, tokens, text_features] for each attention of the UNet to its text,
// in the order of CrossAttentionsOf: weights PATH.to_k_ip.weight and PATH.to_v_ip.weight.
std::vector<KeysAndValues> ReadTokens(GraphBuilder& builder, const Unet2dConditionConfig& unet,
                                      absl::string_view component, Value tokens);

}  // namespace latentd::networks
