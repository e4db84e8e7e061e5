// The UNet of a file: its architecture, as far as names and shapes tell it, and its tensors by
// diffusers' names.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/weights/containers/recognize/part_reader.h"
#include "core/weights/containers/recognize/unet_paths.h"
#include "core/weights/source.h"

namespace latentd::weights {

// The architecture. Sizes and depths are the file's.
struct UnetArchitecture {
  // Transformer layers of each layer of a block; empty in a block without attention.
  using Depths = std::vector<int64_t>;

  int64_t in_channels = 0;
  int64_t out_channels = 0;
  std::vector<int64_t> channels;  // features of each block on the way down
  std::vector<int64_t> layers;    // the same; on the way up a block has one more
  std::vector<Depths> down, up;   // up: from the smallest image
  bool has_middle = false;        // false: mid_block_type null
  int64_t middle_depth = 0;       // 0: a residual block alone, or none
  int64_t cross_attention_dim = 0;
  int64_t added_features = 0;      // projection_class_embeddings_input_dim; 0: none
  int64_t time_cond_features = 0;  // time_cond_proj_dim; 0: none
  bool is_linear = false;          // use_linear_projection
};

struct UnetPart {
  UnetArchitecture architecture;
  SourceMap sources;
};

// The tensors of a file that are its UNet's, under whichever prefix it has; empty: there is none.
std::optional<PartTensors> FindUnet(const TensorMap& tensors);

// INVALID_ARGUMENT, beginning with `path`, names the tensors that are missing, misshapen or left
// over, or the block that no UNet2DConditionModel has.
absl::StatusOr<UnetPart> ReadUnet(const std::string& path, PartTensors tensors);

// Settings of the architecture that names and shapes do not tell.
struct UnetDefaults {
  int64_t heads = 0;                // in every block; 0: as many as there are 64 channels
  int64_t height = 64, width = 64;  // sample_size
  int64_t time_features = 256;      // addition_time_embed_dim
  bool upcast_attention = false;
};

// config.json of such a UNet. INVALID_ARGUMENT: channels that do not make whole heads.
absl::StatusOr<std::string> UnetConfig(const UnetArchitecture& unet, const UnetDefaults& defaults);

}  // namespace latentd::weights
