// Functions shared by schedulers in terms of training timesteps and alphas_cumprod (DDIM, DDPM,
// PNDM, LCM, TCD). Private to core/schedulers.
#pragma once

#include "absl/status/status.h"
#include "core/schedulers/grids/grid.h"

namespace latentd::schedulers {

// signal² at a training timestep. A negative one counts from the end, as diffusers' indexing makes
// it.
double AlphaAt(const Grid& grid, int timestep);

// signal² before training timestep 0: 1 with set_alpha_to_one, else that of timestep 0.
double FinalAlpha(const Grid& grid);

// Whole timesteps, the request's own or as many as it wants steps, and alphas_cumprod.
absl::Status FillAlphaGrid(Grid& grid);

// INVALID_ARGUMENT unless every timestep of the grid is one that the network was trained at.
absl::Status CheckTimesteps(const Grid& grid);

// Latents are √alpha * image + √(1 - alpha) * noise.
StartScales StartFromAlpha(const Grid& grid, int index);

}  // namespace latentd::schedulers
