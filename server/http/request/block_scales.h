// Scales by blocks of a UNet in JSON: diffusers' trees, where the API has a list.
//
// Pure functions.
#pragma once

#include <nlohmann/json.hpp>

namespace latentd::server::http {

// {"up": {"block_0": [0, 1, 0]}} as protobuf's JSON has the same, a list of latent.v1.BlockScale.
// All else, and what in a tree is none, as it is.
nlohmann::json BlockScalesOf(const nlohmann::json& tree);

}  // namespace latentd::server::http
