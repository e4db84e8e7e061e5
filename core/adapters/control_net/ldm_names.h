// Names of a ControlNet's tensors in latent diffusion's own code (LDM), from which the first
// ControlNets come as single files.
//
// Thread-safe: free functions without state.
#pragma once

#include "core/networks/config/unet_2d_condition_config.h"
#include "core/weights/stored_tensor.h"

namespace latentd::adapters {

// The tensors by diffusers' names: as they are where they have these, renamed where they have
// LDM's. Blocks are numbered as those of the UNet that the net is a copy of.
weights::TensorMap WithDiffusersNames(const weights::TensorMap& tensors,
                                      const networks::Unet2dConditionConfig& unet);

}  // namespace latentd::adapters
