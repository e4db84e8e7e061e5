#include "core/schedulers/grids/middle_grid.h"

#include <cmath>
#include <utility>

#include "core/schedulers/grids/noise_schedule.h"
#include "core/schedulers/grids/sigma_grid.h"
#include "core/schedulers/grids/sigmas.h"

namespace latentd::schedulers {

double MiddleOf(double sigma, double sigma_next) { return std::sqrt(sigma * sigma_next); }
double AncestralMiddleOf(double, double sigma_next) { return sigma_next; }

void FillMiddleGrid(Grid& grid, double (*middle)(double sigma, double sigma_next)) {
  FillSigmaGrid(grid);
  grid.stride = 2;
  const std::vector<float> logs = LogSigmas(TrainingSigmas(grid.config));
  std::vector<double> timesteps;
  std::vector<float> sigmas;
  for (size_t i = 0; i < grid.timesteps.size(); ++i) {
    if (i > 0) {
      sigmas.push_back(static_cast<float>(middle(grid.sigmas[i - 1], grid.sigmas[i])));
      timesteps.push_back(TimestepOfSigma(sigmas.back(), logs));
    }
    timesteps.push_back(grid.timesteps[i]);
    sigmas.push_back(grid.sigmas[i]);
  }
  sigmas.push_back(grid.sigmas.back());
  grid.timesteps = std::move(timesteps);
  grid.sigmas = std::move(sigmas);
}

StartScales StartFromMiddle(const Grid& grid, int index) {
  const bool is_middle = index % grid.stride != 0;
  return StartFromSigma(grid, is_middle ? index + 1 : index);
}

MiddlePoint::MiddlePoint(const Grid& grid, Point point)
    : first((point.index - point.begin) % 2 == 0),
      start(grid.sigmas[first ? point.index : point.index - 1]),
      sigma(grid.sigmas[point.index]),
      target(grid.sigmas[point.index + 1]) {}

}  // namespace latentd::schedulers
