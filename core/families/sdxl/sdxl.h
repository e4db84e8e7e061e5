// Stable Diffusion XL and its refiner: one or two text encoders, of which the penultimate states
// and the last one's pooled state are read, and sizes, crops and aesthetic scores as time ids. As
// diffusers' SDXL pipelines do it.
#pragma once

#include "core/families/family/family.h"

namespace latentd::families::sdxl {

extern const Family kBase;
extern const Family kRefiner;

}  // namespace latentd::families::sdxl
