// The grid that schedulers in terms of sigma = noise / signal share (Euler, Euler ancestral, Heun).
// Private to core/schedulers.
#pragma once

#include "core/schedulers/grids/grid.h"

namespace latentd::schedulers {

// Timesteps, sigmas with the final one behind them, and the initial noise scale, from a number of
// steps, from timesteps or from sigmas.
void FillSigmaGrid(Grid& grid);

// Latents are x0 + sigma * noise.
StartScales StartFromSigma(const Grid& grid, int index);

}  // namespace latentd::schedulers
