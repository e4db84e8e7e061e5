#include "core/schedulers/grids/timesteps.h"

#include <algorithm>
#include <cmath>

namespace latentd::schedulers {
namespace {

std::vector<double> Leading(const SchedulerConfig& config, int count) {
  const int step = config.num_train_timesteps / count;
  std::vector<double> timesteps(count);
  for (int i = 0; i < count; ++i) timesteps[count - 1 - i] = i * step + config.steps_offset;
  return timesteps;
}

}  // namespace

std::vector<double> Linspace(double start, double stop, int count) {
  std::vector<double> values(count, start);
  if (count < 2) return values;
  const double step = (stop - start) / (count - 1);
  for (int i = 0; i < count; ++i) values[i] = i * step + start;
  values.back() = stop;
  return values;
}

std::vector<double> Trailing(double start, double step) {
  const int count = static_cast<int>(std::ceil(start / step));
  const double difference = (start - step) - start;  // numpy steps by what the first two differ
  std::vector<double> timesteps(count);
  for (int i = 0; i < count; ++i) timesteps[i] = std::nearbyint(start + i * difference) - 1;
  return timesteps;
}

std::vector<double> SpacedTimesteps(const SchedulerConfig& config, int count) {
  switch (config.timestep_spacing) {
    case TimestepSpacing::kLeading:
      return Leading(config, count);
    case TimestepSpacing::kTrailing:
      return Trailing(config.num_train_timesteps,
                      static_cast<double>(config.num_train_timesteps) / count);
    case TimestepSpacing::kLinspace:
      break;
  }
  std::vector<double> timesteps = Linspace(0, config.num_train_timesteps - 1, count);
  std::reverse(timesteps.begin(), timesteps.end());
  return timesteps;
}

}  // namespace latentd::schedulers
