// A Grid is the timesteps and noise levels of a run, from which its coefficients follow. Private to
// core/schedulers.
#pragma once

#include <vector>

#include "core/schedulers/config/schedule_request.h"
#include "core/schedulers/config/scheduler_config.h"

namespace latentd::schedulers {

// Everything that formulas read: one entry for each evaluation of the network, before strength and
// the like cut it.
struct Grid {
  const SchedulerConfig& config;
  const ScheduleRequest& request;

  // Evaluations of a step; a run begins at a multiple of them. Two kinds of steps differ: the last
  // may have fewer; and where there are more evaluations than those of all steps, as PNDM has one,
  // the first step of a run has them, wherever it begins. diffusers' order.
  int stride = 1;
  std::vector<double> timesteps;
  std::vector<float> sigmas;  // noise / signal at each evaluation and after the last; or empty, and
  std::vector<float> alphas_cumprod;  // signal² by training timestep
  double initial_noise_scale = 1;
};

// A point of the grid, in a run that began at `begin`: a multi-step method has no history there.
struct Point {
  int index = 0;
  int begin = 0;
};

// latents = image * latents of an image + noise * noise
struct StartScales {
  double image = 1;
  double noise = 0;
};

}  // namespace latentd::schedulers
