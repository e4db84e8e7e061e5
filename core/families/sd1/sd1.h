// Stable Diffusion 1 and 2: one text encoder, whose last state, normed, is all that the UNet reads
// of a prompt. As diffusers' StableDiffusionPipeline and its relatives do it.
#pragma once

#include "core/families/family/family.h"

namespace latentd::families::sd1 {

extern const Family kFamily;

}  // namespace latentd::families::sd1
