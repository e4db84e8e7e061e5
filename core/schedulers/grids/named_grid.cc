#include "core/schedulers/grids/named_grid.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/schedulers/grids/sigmas.h"
#include "core/schedulers/grids/timesteps.h"

namespace latentd::schedulers {
namespace {

constexpr int kTableSize = 11;
using Table = std::array<float, kTableSize>;

constexpr Table kSdxlTable = {14.615f, 6.315f, 3.771f, 2.181f, 1.342f, 0.862f,
                              0.555f,  0.380f, 0.234f, 0.113f, 0.029f};
constexpr Table kSd15Table = {14.615f, 6.475f, 3.861f, 2.697f, 1.886f, 1.396f,
                              0.963f,  0.652f, 0.399f, 0.152f, 0.029f};

std::vector<double> SimpleTimesteps(double count, int steps) {
  std::vector<double> timesteps;
  for (int i = 0; i < steps; ++i) timesteps.push_back(count - 1 - std::floor(i * (count / steps)));
  return timesteps;
}

std::vector<double> TurboTimesteps(double count, int steps) {
  std::vector<double> timesteps;
  for (int i = steps; i > 0; --i) timesteps.push_back(std::nearbyint(i * (count / steps)) - 1);
  return timesteps;
}

std::vector<double> DdimTimesteps(int count, int steps) {
  const int stride = std::max(count / steps, 1);
  std::vector<double> timesteps;
  for (int timestep = 1; timestep < count; timestep += stride) timesteps.push_back(timestep);
  std::reverse(timesteps.begin(), timesteps.end());
  return timesteps;
}

// Timesteps of a grid that is a rule for these.
std::vector<double> TimestepsFor(NamedGrid grid, int count, int steps) {
  std::vector<double> timesteps;
  switch (grid) {
    case NamedGrid::kNormal:
      return Linspace(count - 1, 0, steps);
    case NamedGrid::kSimple:
      return SimpleTimesteps(count, steps);
    case NamedGrid::kTurbo:
      return TurboTimesteps(count, steps);
    case NamedGrid::kDdimUniform:
      return DdimTimesteps(count, steps);
    case NamedGrid::kSgmUniform:
      timesteps = Linspace(count - 1, 0, steps + 1);
      timesteps.pop_back();
      return timesteps;
    default:
      return {};
  }
}

std::vector<double> KlOptimal(double max, double min, int steps) {
  std::vector<double> sigmas = Linspace(0, 1, steps);
  for (double& value : sigmas) {
    value = std::tan(value * std::atan(min) + (1 - value) * std::atan(max));
  }
  return sigmas;
}

std::vector<double> LinearQuadratic(double max, int steps) {
  if (steps == 1) return {max};
  constexpr double kByLine = 0.025;
  const int linear = steps / 2, quadratic = steps - linear;
  const double slope = kByLine / linear;
  std::vector<double> sigmas;
  for (int i = 0; i < steps; ++i) {
    const double beyond = std::max(i - linear, 0) / static_cast<double>(quadratic);
    sigmas.push_back(max * (1 - slope * i - (1 - slope * steps) * beyond * beyond));
  }
  return sigmas;
}

std::vector<double> AlignYourSteps(AlignYourStepsTable table, int steps) {
  const Table& sigmas = table == AlignYourStepsTable::kSdxl ? kSdxlTable : kSd15Table;
  std::vector<float> logs(sigmas.begin(), sigmas.end());
  for (float& value : logs) value = std::log(value);
  std::vector<double> spread = Linspace(0, kTableSize - 1, steps + 1);
  for (double& value : spread) value = SigmaOfTimestep(value, logs);
  spread.pop_back();
  return spread;
}

}  // namespace

std::vector<double> NamedSigmas(const SchedulerConfig& config, absl::Span<const float> training,
                                int steps) {
  const double max = config.sigma_max.value_or(training.back());
  const double min = config.sigma_min.value_or(training.front());
  switch (*config.named_grid) {
    case NamedGrid::kKarras:
      return KarrasSigmas(max, min, steps, kKarrasRho);
    case NamedGrid::kExponential:
      return ExponentialSigmas(max, min, steps);
    case NamedGrid::kBeta:
      return BetaSigmas(max, min, steps);
    case NamedGrid::kKlOptimal:
      return KlOptimal(max, min, steps);
    case NamedGrid::kAlignYourSteps:
      return AlignYourSteps(config.align_your_steps, steps);
    case NamedGrid::kLinearQuadratic:
      return LinearQuadratic(max, steps);
    default:
      break;
  }
  const std::vector<float> logs = LogSigmas(training);
  std::vector<double> sigmas =
      TimestepsFor(*config.named_grid, static_cast<int>(training.size()), steps);
  for (double& value : sigmas) value = SigmaOfTimestep(value, logs);
  return sigmas;
}

}  // namespace latentd::schedulers
