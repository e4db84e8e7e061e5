// Choice of a run's steps among the training timesteps. Private to core/schedulers.
#pragma once

#include <vector>

#include "core/schedulers/config/scheduler_config.h"

namespace latentd::schedulers {

// numpy's linspace in double: one number is `start`.
std::vector<double> Linspace(double start, double stop, int count);

// numpy's arange(start, 0, -step) in double, rounded half to even, less one: the timesteps of
// trailing spacing. Like diffusers, rounding may make it one more than start / step, with -1 at the
// end (61 of 1000).
std::vector<double> Trailing(double start, double step);

// `count` timesteps, falling, in the config's timestep_spacing (arXiv 2305.08891, table 2). Those
// of linspace are not rounded.
std::vector<double> SpacedTimesteps(const SchedulerConfig& config, int count);

}  // namespace latentd::schedulers
