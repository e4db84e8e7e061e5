// Names that latent diffusion's own code (LDM, sgm) gives the modules of a UNet: kohya's scripts
// and ComfyUI write LoRAs against them.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"

namespace latentd::adapters {

// "down_blocks.1.attentions.0.proj_in" -> "input_blocks.4.1.proj_in", of each module of a
// UNet2DConditionModel, by the paths of all of them. A network without down_blocks has none.
//
// Layers are numbered by counting, as LDM does, in networks that have fewer of them, too.
absl::flat_hash_map<std::string, std::string> LdmNames(const absl::btree_set<std::string>& modules);

}  // namespace latentd::adapters
