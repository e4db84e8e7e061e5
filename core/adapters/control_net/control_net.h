// A ControlNet as a file of tensors has it, with the configuration that its folder says, or that
// the model and the shapes of its tensors tell.
//
// A folder of diffusers (config.json beside diffusion_pytorch_model.safetensors), or a single file
// with diffusers' names, or with LDM's as the first ControlNets have them. The bytes come from
// anywhere: a net that does not fit the model is refused with what differs.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/adapters/lora/lora_reader.h"
#include "core/networks/config/control_net_config.h"
#include "core/networks/config/unet_2d_condition_config.h"
#include "core/weights/stored_tensor.h"

namespace latentd::adapters {

struct ControlNet {
  std::string name, path;
  networks::ControlNetConfig config;
  weights::TensorMap tensors;  // by diffusers' names
};

// INVALID_ARGUMENT, which begins with the file's path: its configuration cannot be read, or it is
// for another UNet than that one, or not all of its tensors are those of such a network.
absl::StatusOr<ControlNet> MakeControlNet(std::string name, const LoraFile& file,
                                          const networks::Unet2dConditionConfig& unet);

}  // namespace latentd::adapters
