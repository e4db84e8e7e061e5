// The UNet of a file, or what the file is in place of a checkpoint that is served.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/weights/containers/recognize/unet_part.h"
#include "core/weights/stored_tensor.h"

namespace latentd::weights {

// INVALID_ARGUMENT, beginning with `path`: names are another model's or an add-on's, or say that
// the weights are quantised.
absl::Status CheckServed(const std::string& path, const TensorMap& tensors);

// INVALID_ARGUMENT as CheckServed's and ReadUnet's; a file without a UNet is called what it is.
absl::StatusOr<UnetPart> ReadServedUnet(const std::string& path, const TensorMap& tensors);

}  // namespace latentd::weights
