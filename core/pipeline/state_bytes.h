// How much memory pictures take while they are drawn.
#pragma once

#include <cstdint>
#include <vector>

#include "core/pipeline/sdxl_model.h"

namespace latentd::pipeline {

// What one picture of that shape holds at most, beside weights, executables and arena, where every
// model has its turn: prompts, init image, latents, and either the state block or the pixels.
int64_t StateBytes(const std::vector<const SdxlModel*>& models, const StepShape& shape, Size size);

}  // namespace latentd::pipeline
