// The noise levels that a network was trained at: betas and what follows from them, in float32 and
// in the order of operations that diffusers has, so that they agree to the last bit or two. Private
// to core/schedulers.
#pragma once

#include <vector>

#include "core/schedulers/config/scheduler_config.h"

namespace latentd::schedulers {

// signal² at each training timestep, falling. With rescale_betas_zero_snr ("Common Diffusion Noise
// Schedules and Sample Steps are Flawed", arXiv 2305.08891, algorithm 1) the last is 0.
std::vector<float> AlphasCumprod(const SchedulerConfig& config);

// noise / signal at each training timestep, rising. Where the last signal² is 0 it counts as 2^-24,
// as in diffusers.
std::vector<float> TrainingSigmas(const SchedulerConfig& config);

// `count` float32 numbers from start to stop, with the rounding of torch.linspace. REQUIRES: count
// >= 2.
std::vector<float> LinspaceFloat(float start, float stop, int count);

}  // namespace latentd::schedulers
