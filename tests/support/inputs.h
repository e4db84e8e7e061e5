// Inputs of requests, of one kind.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "core/pipeline/spec/request/inputs.h"

namespace latentd::testing {

inline pipeline::SharedInputs ImageInput(std::string image) {
  return std::make_shared<const pipeline::Inputs>(pipeline::Inputs{.image = std::move(image)});
}

inline pipeline::SharedInputs LatentsInput(std::string latents) {
  return std::make_shared<const pipeline::Inputs>(pipeline::Inputs{.latents = std::move(latents)});
}

}  // namespace latentd::testing
