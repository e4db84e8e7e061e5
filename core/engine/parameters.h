// What made a picture, as the text that a PNG carries.
#pragma once

#include <cstdint>
#include <string>

#include "core/pipeline/picture_spec.h"

namespace latentd::engine {

// REQUIRES: `resolved` came from Pipeline::Resolve.
std::string ParametersOf(const pipeline::PictureSpec& resolved, uint64_t seed);

}  // namespace latentd::engine
