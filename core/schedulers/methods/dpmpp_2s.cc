// diffusers' DPM-Solver++, singlestep (arXiv 2211.01095): evaluations come in groups of up to
// solver_order, and each of a group steps from where the group began, in terms of what has been
// estimated since. Latents are signal * x0 + noise * n with sigma = noise / signal. With a the
// latents and m the estimate of x0 at the group's first evaluation (kept in h1 and h2), m1 (in h3)
// and m2 those of the second and third, lengths in log(sigma) from there, l1 and l2 those of these
// two, h that of the step, L = h for the ODE and 2h for the SDE, r = exp(-L),
//   D = (h / l1) (m1 - m)    E = (h / l2) (m2 - m)    q = l1 / h    s = l2 / h
//   order 1  x' = r (signal' / signal) a + signal' (1 - r) m
//   order 2  ... + signal' (1 - r) / 2 D (midpoint), or signal' ((r - 1) / L + 1) D (heun)
//   order 3  ... + signal' ((r - 1) / L + 1) E (midpoint, which leaves D out), or
//                + signal' ((r - 1) / L + 1) (s D - q E) / (s - q)
//                - signal' ((r - 1 + L) / L² - 1/2) 2 (E - D) / (s - q) (heun)
// and the SDE adds noise' √(1 - r) of noise. diffusers' SDE of third order has the last term with
// the wrong sign of 1/2 (as its multistep has), and so has this.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/schedulers/formulas/dpm_solver.h"
#include "core/schedulers/formulas/step_matrix.h"
#include "core/schedulers/grids/multistep_grid.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

// diffusers registers sigma_min and sigma_max of another scheduler's file and reads them.
constexpr absl::string_view kFields[] = {
    "use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas",     "sigma_min",
    "sigma_max",         "final_sigmas_type",      "thresholding",        "algorithm_type",
    "solver_type",       "solver_order",           "lower_order_final",   "lambda_min_clipped",
    "use_flow_sigmas",   "variance_type",          "use_dynamic_shifting"};

void SetDefaults(SchedulerConfig& config) { config.lower_order_final = false; }

absl::Status FillGrid(Grid& grid) { return FillMultistepGrid(grid, SpreadRule::kSinglestep); }

// Place in its group, from 1, of an evaluation of the whole grid, as diffusers' get_order_list has
// it: the last one is alone where the last sigma is 0, or where lower_order_final is set and no
// group is short.
int PlaceInGroup(const Grid& grid, int index) {
  const int order = grid.config.solver_order;
  const int steps = static_cast<int>(grid.timesteps.size());
  const bool lowers = grid.config.lower_order_final && steps % order == 0;
  const bool last_alone = lowers || grid.config.final_sigmas_type == FinalSigmas::kZero;
  return index + 1 == steps && last_alone ? 1 : index % order + 1;
}

// Less in a run that began within a group: as many as there are estimates.
int OrderAt(const Grid& grid, Point point) {
  return std::min(PlaceInGroup(grid, point.index), point.index - point.begin + 1);
}

// A step to the next noise level from where a group began, `order` - 1 evaluations before.
class GroupStep {
 public:
  GroupStep(const Grid& grid, int index, int order, bool sde)
      : start_(grid.sigmas[index - order + 1]), next_(grid.sigmas[index + 1]) {
    ratio_ = next_ / start_;
    left_ = sde ? ratio_ * ratio_ : ratio_;
    length_ = -std::log(left_);
    h_ = -std::log(ratio_);
    if (order > 1) first_ = std::log(start_ / grid.sigmas[index - order + 2]);
    if (order > 2) second_ = std::log(start_ / grid.sigmas[index]);
  }

  double of_latents() const { return left_ * SignalAt(next_) / SignalAt(start_); }
  double of_original() const { return SignalAt(next_) * (1 - left_); }
  double of_noise() const { return next_ * SignalAt(next_) * std::sqrt(std::max(1 - left_, 0.0)); }

  // Weights of m1 - m, and of m2 - m.
  double OfFirst(bool heun) const {
    return SignalAt(next_) * (heun ? Linear() : (1 - left_) / 2) * h_ / first_;
  }
  std::pair<double, double> OfBoth(bool heun, bool flips_half) const {
    const double of_second = h_ / second_;
    if (!heun) return {0, SignalAt(next_) * Linear() * of_second};
    const double of_first = h_ / first_;
    const double apart = (second_ - first_) / h_;
    const double half = flips_half ? -0.5 : 0.5;
    const double change = 2 * (half - (left_ - 1 + length_) / (length_ * length_)) / apart;
    const double linear = Linear() / apart;
    return {SignalAt(next_) * (linear * second_ / h_ - change) * of_first,
            SignalAt(next_) * (change - linear * first_ / h_) * of_second};
  }

 private:
  double Linear() const { return (left_ - 1) / length_ + 1; }

  double start_, next_;
  double ratio_ = 0, left_ = 0, length_ = 0, h_ = 0;
  double first_ = 0, second_ = 0;
};

StepMatrix MatrixAt(const Grid& grid, int index, int order, Estimate original) {
  const bool sde = grid.config.algorithm_type == AlgorithmType::kSdeDpmSolverPlusPlus;
  const bool heun = grid.config.solver_type == SolverType::kHeun;
  const GroupStep step(grid, index, order, sde);
  StepMatrix matrix;
  matrix.at(kX, kNoise) = sde ? step.of_noise() : 0;
  if (order == 1) {
    matrix.at(kX, kX) = step.of_latents();
    matrix.Add(kX, step.of_original(), original);
    matrix.at(kH1, kX) = 1;
    matrix.Add(kH2, 1, original);
    return matrix;
  }
  matrix.at(kX, kH1) = step.of_latents();
  matrix.at(kX, kH2) = step.of_original();
  matrix.at(kH1, kH1) = 1;
  matrix.at(kH2, kH2) = 1;
  matrix.Add(kH3, 1, original);
  if (order == 2) {
    matrix.Add(kX, step.OfFirst(heun), original);
    matrix.at(kX, kH2) -= step.OfFirst(heun);
    return matrix;
  }
  const auto [of_first, of_second] = step.OfBoth(heun, /*flips_half=*/sde);
  matrix.at(kX, kH3) = of_first;
  matrix.Add(kX, of_second, original);
  matrix.at(kX, kH2) -= of_first + of_second;
  return matrix;
}

StepCoefficients Step(const Grid& grid, Point point) {
  const double sigma = grid.sigmas[point.index];
  const double signal = SignalAt(sigma);
  const Estimate original = EstimateSignal(grid.config.prediction_type, signal, sigma * signal);
  return {.matrix = MatrixAt(grid, point.index, OrderAt(grid, point), original).ToFloat(),
          .draws_noise = grid.config.algorithm_type == AlgorithmType::kSdeDpmSolverPlusPlus,
          .predicted = original.ToFloat()};
}

}  // namespace

constinit const Scheduler kDpmpp2s = {.class_name = "DPMSolverSinglestepScheduler",
                                      .fields = kFields,
                                      .spaces_timesteps = false,
                                      .set_defaults = SetDefaults,
                                      .find_mistake = FindDpmSolverMistake,
                                      .takes_timesteps = true,
                                      .fill_grid = FillGrid,
                                      .step = Step,
                                      .start = StartFromVpSigma};

}  // namespace latentd::schedulers
