// The grid that the multi-step solvers of diffusers share whose latents are signal * x0 + noise *
// n, signal² + noise² = 1, in terms of sigma = noise / signal (DPM-Solver++, UniPC, DEIS,
// SA-Solver). Private to core/schedulers.
#pragma once

#include <cmath>

#include "absl/status/status.h"
#include "core/schedulers/grids/grid.h"

namespace latentd::schedulers {

// Differences of diffusers' classes in sigmas that are spread (use_karras_sigmas and the like):
// DPM-Solver++ does not round their timesteps with squaredcos_cap_v2, and with sigma_min it ends at
// the least of the training sigmas; its singlestep form rounds them always; the others do so too,
// and repeat the last one.
enum class SpreadRule : uint8_t { kDpmSolver, kSinglestep, kUniPc };

// Timesteps, and sigmas with the final one behind them.
absl::Status FillMultistepGrid(Grid& grid, SpreadRule rule);

inline double SignalAt(double sigma) { return 1 / std::sqrt(sigma * sigma + 1); }

// Latents are signal * image + noise * noise.
StartScales StartFromVpSigma(const Grid& grid, int index);

}  // namespace latentd::schedulers
