// The value of --model: "NAME=PATH", and behind it parts and settings of that model:
//
//   anime=/models/anime.safetensors,vae=/models/vae.safetensors,preset=pony,residency=pinned
//
// Thread-safe: a free function without state.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/engine/api/config.h"

namespace latentd::server::config {

// One for each text, in their order. INVALID_ARGUMENT names the text, what in it is wrong and what
// would be right; a name that two have, or that --base or --refiner have.
absl::StatusOr<std::vector<pipeline::ModelSource>> ToModels(const std::vector<std::string>& texts);

}  // namespace latentd::server::config
