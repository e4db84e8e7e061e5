// The fields that diffusers' UNetSpatioTemporalConditionModel reads from its config.json. A value
// beyond what this network has is an error that names it. Groups of norms (32) and silu are fixed
// in diffusers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/networks/config/config_reader.h"

namespace latentd::networks {

struct UnetSpatioTemporalConfig {
  // One resolution on the way down, with the block that mirrors it on the way up.
  struct Block {
    int64_t channels = 320;
    int64_t layers = 2;  // one more on the way up
    int64_t heads = 5;
    int64_t transformer_layers = 1;
    bool attends_down = true;  // transformers follow its residual blocks on the way down
    bool attends_up = true;    // and on the way up
  };

  std::vector<Block> blocks;  // from the largest image to the smallest
  int64_t in_channels = 8;
  int64_t out_channels = 4;
  int64_t cross_attention_dim = 1024;
  int64_t addition_time_embed_dim = 256;
  int64_t addition_input_dim = 768;  // projection_class_embeddings_input_dim
  int64_t num_frames = 25;           // frames of the clips that it was trained on
  // Size at which the network was trained, in latent pixels; absent in some checkpoints.
  std::optional<ConfigReader::Size> sample_size;

  std::vector<std::string> unknown_fields;  // ConfigReader's

  int64_t time_embedding_dim() const { return 4 * blocks.front().channels; }
  // Numbers that a clip is described by: frames per second, motion and noise in Stable Video
  // Diffusion.
  int64_t time_ids() const { return addition_input_dim / addition_time_embed_dim; }
};

// `source` names the file or component in errors.
absl::StatusOr<UnetSpatioTemporalConfig> ParseUnetSpatioTemporalConfig(absl::string_view json,
                                                                       absl::string_view source);

}  // namespace latentd::networks
