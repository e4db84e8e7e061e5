// Scales by blocks of a UNet at the command line: diffusers' trees, as JSON.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <string>

#include "absl/status/status.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::client {

// Adds those of a tree such as {"mid": 0.5, "up": {"block_0": [0, 1, 0]}}, in the order of their
// names. INVALID_ARGUMENT says how one has to be; the server knows which blocks there are.
absl::Status AddBlockScales(const std::string& tree,
                            google::protobuf::RepeatedPtrField<::latent::v1::BlockScale>& scales);

}  // namespace latentd::client
