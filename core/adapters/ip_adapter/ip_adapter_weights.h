// The weights of an IP-Adapter: what their names and shapes tell, and the names of the UNet's
// modules for the numbers that files have.
//
// Thread-safe: free functions without state.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/networks/config/unet_2d_condition_config.h"
#include "core/networks/ip_adapter.h"
#include "core/weights/stored_tensor.h"

namespace latentd::adapters {

// INVALID_ARGUMENT: a kind that is not served, by its name (FaceID, full-face), or what is missing.
absl::StatusOr<networks::IpAdapterConfig> ConfigOfTensors(const weights::TensorMap& tensors);

// ip_adapter.1.…, 3, 5 and so on are the UNet's attentions to text on the way down, then up, then
// in the middle. Tensors of other names keep theirs.
weights::TensorMap WithModuleNames(const weights::TensorMap& tensors,
                                   const networks::Unet2dConditionConfig& unet);

// OK if they are just those of such an adapter of the UNet. INVALID_ARGUMENT names some that are
// not.
absl::Status CheckIpAdapterTensors(const networks::IpAdapterConfig& config,
                                   const networks::Unet2dConditionConfig& unet,
                                   const weights::TensorMap& tensors);

}  // namespace latentd::adapters
