// The fields that diffusers' UNet2DConditionModel reads from its config.json, as far as this
// network has them: everything that Stable Diffusion 1.5, 2.1, SDXL base and refiner and their
// relatives use. A value beyond that is an error that names it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/networks/config/config_reader.h"
#include "core/networks/layers/layers.h"
#include "core/networks/layers/resnet_block.h"
#include "core/networks/layers/transformer_2d.h"

namespace latentd::networks {

struct Unet2dConditionConfig {
  // One resolution on the way down, with the block that mirrors it on the way up.
  struct Block {
    int64_t channels = 320;
    int64_t layers = 2;  // one more on the way up
    int64_t heads = 8;
    FirstAttention first_attention = FirstAttention::kToItself;
  };
  // Transformer layers of each layer of a block; empty in a block without attention.
  using Transformers = std::vector<int64_t>;
  enum class MiddleBlock : uint8_t { kNone, kResnet, kCrossAttention };

  std::vector<Block> blocks;                    // from the largest image to the smallest
  std::vector<Transformers> down_transformers;  // in the order of blocks
  std::vector<Transformers>
      up_transformers;  // in the order of the up blocks: from the smallest image
  MiddleBlock middle = MiddleBlock::kCrossAttention;
  int64_t middle_transformer_layers = 1;
  double middle_scale = 1;

  int64_t in_channels = 4;
  int64_t out_channels = 4;
  int64_t conv_in_kernel = 3;
  int64_t conv_out_kernel = 3;
  int64_t downsample_padding = 1;
  bool center_input_sample = false;

  int64_t norm_num_groups = 32;
  double norm_eps = 1e-5;
  Activation activation = Activation::kSilu;
  TimeShift time_shift = TimeShift::kAdd;

  int64_t cross_attention_dim = 1280;
  Projection projection = Projection::kConvolution;
  bool upcast_attention = false;  // softmax in float32 where the rest is not

  // Time: sinusoids, then two linear layers to time_embedding_dim features.
  int64_t time_embedding_dim = 1280;
  bool flip_sin_to_cos = true;
  double freq_shift = 0;
  std::optional<Activation> time_embedding_activation;
  std::optional<Activation> timestep_post_activation;
  // Features of timestep_cond, which is projected and added to the sinusoids; 0: there is none.
  int64_t time_cond_proj_dim = 0;

  // addition_embed_type text_time: the network takes text_embeds and time_ids.
  bool text_time = false;
  int64_t addition_time_embed_dim = 0;
  int64_t addition_input_dim = 0;  // projection_class_embeddings_input_dim

  // Size at which the network was trained, in latent pixels; absent in some checkpoints.
  std::optional<ConfigReader::Size> sample_size;

  std::vector<std::string> unknown_fields;  // ConfigReader's

  // Features of text_embeds when there are `count` time ids, as addition_input_dim leaves them.
  int64_t TextEmbedFeatures(int64_t count) const {
    return addition_input_dim - count * addition_time_embed_dim;
  }
};

// `source` names the file or component in errors.
absl::StatusOr<Unet2dConditionConfig> ParseUnet2dConditionConfig(absl::string_view json,
                                                                 absl::string_view source);

}  // namespace latentd::networks
