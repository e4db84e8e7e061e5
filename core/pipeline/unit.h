// What a picture does next, and where it stands.
#pragma once

#include <cstdint>

namespace latentd::pipeline {

enum class UnitKind : uint8_t {
  kText,    // prompts to conditioning, for the stage that comes next
  kEncode,  // init image to latents
  kStep,    // one evaluation of the UNet
  kDecode,  // latents to pixels
  kDone,    // nothing: the picture is finished
};

// Names network, weight set, size and rows: what rows must have in common to share an evaluation.
using Lane = uint64_t;

}  // namespace latentd::pipeline
