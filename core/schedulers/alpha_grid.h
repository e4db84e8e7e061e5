// Functions shared by schedulers in terms of training timesteps and alphas_cumprod (DDIM, LCM).
// Private to this directory.
#pragma once

#include "core/schedulers/scheduler.h"

namespace latentd::schedulers {

// signal² at a training timestep. A negative one counts from the end, as diffusers' indexing makes
// it.
double AlphaAt(const Grid& grid, int timestep);

// signal² before training timestep 0: 1 with set_alpha_to_one, else that of timestep 0.
double FinalAlpha(const Grid& grid);

// INVALID_ARGUMENT unless every timestep of the grid is one that the network was trained at.
absl::Status CheckTimesteps(const Grid& grid);

// Latents are √alpha * image + √(1 - alpha) * noise.
StartScales StartFromAlpha(const Grid& grid, int index);

}  // namespace latentd::schedulers
