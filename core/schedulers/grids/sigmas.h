// Noise levels of a run, as sigma = noise / signal, and back to timesteps. Private to
// core/schedulers.
#pragma once

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "core/schedulers/config/scheduler_config.h"

namespace latentd::schedulers {

// The training sigmas at fractional timesteps, linearly between two, the ends beyond the ends.
std::vector<double> SigmasAt(absl::Span<const float> training_sigmas,
                             absl::Span<const double> timesteps);

// True if a rule for sigmas (named_grid, or one of the use_..._sigmas and use_lu_lambdas) places
// them, in place of one for timesteps.
bool SpreadsSigmas(const SchedulerConfig& config);

// `count` sigmas of the config's named_grid, or else from config.sigma_max (else `first`) down to
// config.sigma_min (else `last`), spread as the config says: Karras (arXiv 2206.00364, equation 5,
// rho = 7), evenly in the logarithm (exponential, and Lu's lambdas with rho = 1), or by quantiles
// of the beta distribution with 0.6 and 0.6 (arXiv 2407.12173). REQUIRES: SpreadsSigmas(config).
std::vector<double> SpreadSigmas(const SchedulerConfig& config, absl::Span<const float> training,
                                 double first, double last, int count);

// The same over the whole of the training sigmas, as fractional timesteps.
std::vector<double> SpreadTimesteps(const SchedulerConfig& config, int count);

inline constexpr double kKarrasRho = 7;

// `count` sigmas from max down to min: those of Karras with a rho, evenly in the logarithm, and by
// quantiles of the beta distribution.
std::vector<double> KarrasSigmas(double max, double min, int count, double rho);
std::vector<double> ExponentialSigmas(double max, double min, int count);
std::vector<double> BetaSigmas(double max, double min, int count);

// Logarithms in float32, which is what timesteps are looked up in.
std::vector<float> LogSigmas(absl::Span<const float> training_sigmas);

// The sigma of a fractional timestep, linearly in the logarithm, the ends beyond the ends.
// REQUIRES: at least two log_sigmas.
double SigmaOfTimestep(double timestep, absl::Span<const float> log_sigmas);

// The fractional timestep with that sigma. In float32 where the sigma is, as diffusers' own sigmas
// are not and a request's are. REQUIRES: at least two log_sigmas.
double TimestepOfSigma(double sigma, absl::Span<const float> log_sigmas);
double TimestepOfSigma(float sigma, absl::Span<const float> log_sigmas);

// `sigmas` in float32 with `last` behind them.
std::vector<float> WithFinal(absl::Span<const double> sigmas, float last);

// The sigma after the last step, by final_sigmas_type.
float FinalSigma(const SchedulerConfig& config, absl::Span<const float> training_sigmas);

// The scale of the noise to start from: the largest sigma; with leading spacing and no named_grid,
// which starts below the last training timestep, √(σ² + 1).
double InitialNoiseScale(const SchedulerConfig& config, absl::Span<const float> sigmas);

}  // namespace latentd::schedulers
