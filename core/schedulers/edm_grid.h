// The grid and the parametrisation of networks in the style of EDM (arXiv 2206.00364: Playground
// v2.5, CosXL): latents are x0 + sigma * n, the network sees x / √(sigma² + sigma_data²) at
// "timestep" log(sigma) / 4, which is no whole number and may be negative, and
//   x0 = sigma_data² / (sigma² + sigma_data²) x + sigma sigma_data / √(sigma² + sigma_data²) output
// with the minus of v_prediction in place of the plus of epsilon. Private to this directory.
#pragma once

#include "core/schedulers/scheduler.h"
#include "core/schedulers/step_matrix.h"

namespace latentd::schedulers {

// sample has no meaning there.
std::optional<FieldViolation> FindEdmMistake(const SchedulerConfig& config);

// Sigmas from sigma_max down to sigma_min by sigma_schedule, then that or 0, as final_sigmas_type
// says; timesteps and the initial noise scale.
void FillEdmGrid(Grid& grid);

float EdmInputScale(const SchedulerConfig& config, double sigma);
Estimate EdmOriginal(const SchedulerConfig& config, double sigma);

}  // namespace latentd::schedulers
