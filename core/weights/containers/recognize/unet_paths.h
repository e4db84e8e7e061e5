// The modules of a UNet2DConditionModel by their paths in a file, which has them by diffusers'
// names or by those of latent diffusion's own code (LDM, sgm), from which Stable Diffusion's single
// files come. Read from names alone.
//
// Thread-safe: free functions without state.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/weights/containers/recognize/part_reader.h"

namespace latentd::weights {

// Names of the modules that a UNet has once, and of those in each residual block.
struct UnetSpelling {
  absl::string_view conv_in, conv_norm_out, conv_out;
  absl::string_view time_linear_1, time_linear_2, time_cond_proj;
  absl::string_view add_linear_1, add_linear_2;
  absl::string_view norm1, conv1, time_emb_proj, norm2, conv2, conv_shortcut;
};

// Spelling of latent diffusion's own code.
extern const UnetSpelling kLdmSpelling;

struct UnetPaths {
  // A residual block, and the transformer behind it; its path is empty where there is none.
  struct Layer {
    std::string resnet;
    std::string attention;
  };
  struct Block {
    std::vector<Layer> layers;
    std::string sampler;  // its convolution; empty in the last block
  };

  UnetSpelling spelling;
  std::vector<Block> down;    // from the largest image to the smallest
  std::vector<Layer> middle;  // none, a residual block, or one with a transformer and another one
  std::vector<Block> up;      // from the smallest image to the largest
};

// Empty: the names are of no UNet.
std::optional<UnetPaths> FindUnetPaths(const PartTensors& tensors);

}  // namespace latentd::weights
