// The grid that the multi-step solvers of diffusers share whose latents are signal * x0 + noise *
// n, signal² + noise² = 1, in terms of sigma = noise / signal (DPM-Solver++, UniPC, DEIS). Private
// to this directory.
#pragma once

#include <cmath>

#include "core/schedulers/scheduler.h"

namespace latentd::schedulers {

// A difference of diffusers' classes in sigmas that are spread (use_karras_sigmas and the like):
// DPM-Solver++ does not round their timesteps with squaredcos_cap_v2, and with sigma_min it ends at
// the least of the training sigmas; the others round them always, and repeat the last one.
enum class SpreadRule : uint8_t { kDpmSolver, kUniPc };

// Timesteps, and sigmas with the final one behind them.
absl::Status FillMultistepGrid(Grid& grid, SpreadRule rule);

inline double SignalAt(double sigma) { return 1 / std::sqrt(sigma * sigma + 1); }

// Latents are signal * image + noise * noise.
StartScales StartFromVpSigma(const Grid& grid, int index);

}  // namespace latentd::schedulers
