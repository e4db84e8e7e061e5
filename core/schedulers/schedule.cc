#include "core/schedulers/schedule.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/schedulers/grids/sigmas.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

using Violations = std::vector<FieldViolation>;

// Evaluations [begin, end) of the grid.
struct Window {
  int begin = 0;
  int end = 0;
  int steps = 0;  // as users count them, from begin to the end of the grid
};

int SizeOf(const Grid& grid) { return static_cast<int>(grid.timesteps.size()); }

void CheckStepCount(const SchedulerConfig& config, const ScheduleRequest& request,
                    Violations& violations) {
  const int steps = request.num_inference_steps;
  if (!request.timesteps.empty() || !request.sigmas.empty()) return;
  if (1 <= steps && steps <= config.num_train_timesteps) return;
  violations.push_back(
      {"num_inference_steps", absl::StrCat("must be from 1 to ", config.num_train_timesteps,
                                           " with this scheduler, not ", steps)});
}

bool Falls(const std::vector<double>& values) {
  return std::adjacent_find(values.begin(), values.end(),
                            [](double a, double b) { return !(a > b); }) == values.end();
}

void CheckTimesteps(const SchedulerConfig& config, const std::vector<double>& timesteps,
                    Violations& violations) {
  if (timesteps.empty()) return;
  const auto is_trained = [&](double t) { return 0 <= t && t <= config.num_train_timesteps - 1; };
  std::string mistake;
  if (!config.scheduler->takes_timesteps) {
    mistake = absl::StrCat(config.name(), " has no schedules of one's own");
  } else if (SpreadsSigmas(config)) {
    mistake =
        "cannot be combined with sigmas spread by the scheduler (use_karras_sigmas and the like)";
  } else if (config.timestep_type == TimestepType::kContinuous &&
             config.prediction_type == PredictionType::kVPrediction) {
    mistake = "cannot be combined with timestep_type continuous and v_prediction";
  } else if (!std::all_of(timesteps.begin(), timesteps.end(), is_trained) || !Falls(timesteps)) {
    mistake = absl::StrCat("must fall and be from 0 to ", config.num_train_timesteps - 1);
  }
  if (!mistake.empty()) violations.push_back({"timesteps", std::move(mistake)});
}

void CheckSigmas(const SchedulerConfig& config, const std::vector<double>& sigmas,
                 Violations& violations) {
  if (sigmas.empty()) return;
  std::string mistake;
  if (!config.scheduler->takes_sigmas) {
    mistake = absl::StrCat(config.name(), " has no sigmas of one's own");
  } else if (sigmas.size() < 2 ||
             sigmas.size() > static_cast<size_t>(config.num_train_timesteps) + 1) {
    mistake = absl::StrCat("must be from 2 to ", config.num_train_timesteps + 1, " numbers");
  } else if (!std::isfinite(static_cast<float>(sigmas.front())) || !Falls(sigmas) ||
             sigmas.back() < 0) {
    mistake = "must fall, be finite and not negative";
  }
  if (!mistake.empty()) violations.push_back({"sigmas", std::move(mistake)});
}

void CheckFractions(const ScheduleRequest& request, Violations& violations) {
  if (!(0 <= request.eta && request.eta <= 1)) {
    violations.push_back({"eta", "must be from 0 to 1"});
  }
  if (request.strength && !(0 < *request.strength && *request.strength <= 1)) {
    violations.push_back({"strength", "must be above 0 and at most 1"});
  }
  const std::optional<double> start = request.denoising_start;
  const std::optional<double> end = request.denoising_end;
  if (start && !(0 < *start && *start < 1)) {
    violations.push_back({"denoising_start", "must be between 0 and 1"});
  }
  if (end && !(0 < *end && *end <= 1)) {
    violations.push_back({"denoising_end", "must be above 0 and at most 1"});
  }
  if (start && end && *start >= *end) {
    violations.push_back({"denoising_start", "must be less than denoising_end"});
  }
  if (start && request.strength) {
    violations.push_back({"strength", "cannot be combined with denoising_start"});
  }
}

absl::Status CheckRequest(const SchedulerConfig& config, const ScheduleRequest& request) {
  Violations violations;
  CheckStepCount(config, request, violations);
  CheckTimesteps(config, request.timesteps, violations);
  CheckSigmas(config, request.sigmas, violations);
  CheckFractions(request, violations);
  if (!request.timesteps.empty() && !request.sigmas.empty()) {
    violations.push_back({"sigmas", "cannot be combined with timesteps"});
  }
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

// The training timestep at a fraction of the way down, rounded half to even as Python does.
double Cutoff(const SchedulerConfig& config, double fraction) {
  return std::nearbyint(config.num_train_timesteps - fraction * config.num_train_timesteps);
}

// The steps of the whole grid, as diffusers takes them: of a schedule of one's own every
// evaluation.
int StepsOf(const Grid& grid) {
  const bool own = !grid.request.timesteps.empty() || !grid.request.sigmas.empty();
  return own ? SizeOf(grid) : grid.request.num_inference_steps;
}

// The window that a strength leaves, as StableDiffusionXLImg2ImgPipeline.get_timesteps has it.
absl::StatusOr<Window> WindowOfStrength(const Grid& grid, double strength) {
  const int steps = StepsOf(grid);
  const int kept = std::min(static_cast<int>(steps * strength), steps);
  const int begin = (steps - kept) * grid.stride;
  if (kept > 0 && begin < SizeOf(grid)) return Window{begin, SizeOf(grid), kept};
  return InvalidFields(
      {{"strength", absl::StrCat("leaves none of ", steps, " steps; at least one is needed")}});
}

// The window from a denoising_start on: from the first timestep below the cutoff, but never from
// the middle of a step of two evaluations. There, too, diffusers takes every evaluation for a step.
Window WindowOfDenoisingStart(const Grid& grid, double fraction) {
  const double cutoff = Cutoff(grid.config, fraction);
  const std::vector<double>& timesteps = grid.timesteps;
  auto left =
      std::count_if(timesteps.begin(), timesteps.end(), [&](double t) { return t < cutoff; });
  if (grid.stride == 2 && left % 2 == 0) ++left;
  const int begin = std::max(0, static_cast<int>(static_cast<int64_t>(timesteps.size()) - left));
  return {begin, SizeOf(grid), SizeOf(grid) - begin};
}

absl::StatusOr<Window> WindowOf(const Grid& grid) {
  const ScheduleRequest& request = grid.request;
  Window window{0, SizeOf(grid), StepsOf(grid)};
  if (request.strength) {
    ASSIGN_OR_RETURN(window, WindowOfStrength(grid, *request.strength));
  }
  if (request.denoising_start) window = WindowOfDenoisingStart(grid, *request.denoising_start);
  if (request.denoising_end.value_or(1) < 1) {
    const double cutoff = Cutoff(grid.config, *request.denoising_end);
    window.end = window.begin + static_cast<int>(std::count_if(
                                    grid.timesteps.begin() + window.begin, grid.timesteps.end(),
                                    [&](double timestep) { return timestep >= cutoff; }));
  }
  return window;
}

// The step of an evaluation, from 0 at the beginning of the window, as the progress bars of
// diffusers' pipelines count them, which wait for num_warmup_steps evaluations.
int StepOf(const Grid& grid, Window window, int evaluation) {
  const int surplus = std::max(SizeOf(grid) - window.begin - window.steps * grid.stride, 0);
  return std::max((evaluation - window.begin) / grid.stride - surplus / grid.stride, 0);
}

bool IsFinite(const StepCoefficients& step) {
  return std::isfinite(step.timestep) && std::isfinite(step.input_scale) &&
         std::all_of(step.matrix.begin(), step.matrix.end(),
                     [](float f) { return std::isfinite(f); });
}

absl::Status NotFinite(const SchedulerConfig& config, int step) {
  std::string mistake =
      absl::StrCat("with these settings ", config.name(), " divides by zero at step ", step + 1);
  if (config.rescale_betas_zero_snr && config.prediction_type == PredictionType::kEpsilon) {
    absl::StrAppend(&mistake,
                    ": rescale_betas_zero_snr leaves no signal at the last timestep, which needs "
                    "prediction_type v_prediction");
  }
  return InvalidFields({{"scheduler", std::move(mistake)}});
}

// In float32, as torch has thresholds. Never all of the schedule: PNDM has an evaluation more than
// steps.
float PassedBefore(const Grid& grid, Window window, int evaluation) {
  const bool own = !grid.request.timesteps.empty() || !grid.request.sigmas.empty();
  const int all =
      own ? SizeOf(grid) : std::max(SizeOf(grid), grid.request.num_inference_steps * grid.stride);
  return static_cast<float>(evaluation - window.begin) / static_cast<float>(all) +
         static_cast<float>(grid.request.denoising_start.value_or(0));
}

absl::StatusOr<std::vector<StepCoefficients>> Steps(const Grid& grid, Window window) {
  const Scheduler& scheduler = *grid.config.scheduler;
  std::vector<StepCoefficients> steps;
  for (int i = window.begin; i < window.end; ++i) {
    StepCoefficients step = scheduler.step(grid, {.index = i, .begin = window.begin});
    step.timestep = grid.timesteps[i];
    step.denoising_index = StepOf(grid, window, i);
    step.passed = PassedBefore(grid, window, i);
    if (!IsFinite(step)) return NotFinite(grid.config, step.denoising_index);
    // Also where denoising_end cuts the rest off, as in diffusers' inpainting.
    if (i + 1 < window.end) {
      const StartScales next = scheduler.start(grid, i + 1);
      step.kept = {next.image, next.noise};
    }
    steps.push_back(step);
  }
  return steps;
}

}  // namespace

absl::StatusOr<Schedule> MakeSchedule(const SchedulerConfig& config,
                                      const ScheduleRequest& request) {
  RETURN_IF_ERROR(CheckRequest(config, request));
  Grid grid{.config = config, .request = request};
  RETURN_IF_ERROR(config.scheduler->fill_grid(grid));
  ASSIGN_OR_RETURN(const Window window, WindowOf(grid));

  Schedule schedule;
  schedule.initial_noise_scale = grid.initial_noise_scale;
  ASSIGN_OR_RETURN(schedule.steps, Steps(grid, window));
  if (window.begin < SizeOf(grid)) {
    const StartScales start = config.scheduler->start(grid, window.begin);
    schedule.start_image_scale = start.image;
    schedule.start_noise_scale = start.noise;
  }
  return schedule;
}

// With x' = m [S, output, noise], m the first row of the matrix: output = (x' - m S - m noise) / m.
std::array<float, kPredictionTerms> PredictionWeights(const StepCoefficients& step) {
  constexpr size_t kOutputColumn = kStateRows, kNoiseColumn = kStateRows + 1;
  const double of_output = step.matrix[kOutputColumn];
  if (of_output == 0) return {1};
  const double after = step.predicted[1] / of_output;
  std::array<float, kPredictionTerms> weights{static_cast<float>(after)};
  for (size_t i = 0; i < kStateRows; ++i) {
    const double of_x = i == 0 ? step.predicted[0] : 0;
    weights[1 + i] = static_cast<float>(of_x - after * step.matrix[i]);
  }
  weights.back() = static_cast<float>(-after * step.matrix[kNoiseColumn]);
  return weights;
}

void WriteTable(const Schedule& schedule, absl::Span<float> table) {
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const StepCoefficients& step = schedule.steps[i];
    const absl::Span<float> line = table.subspan(i * kLineElements, kLineElements);
    line[kLineTimestep] = static_cast<float>(step.timestep);
    line[kLineInputScale] = step.input_scale;
    line[kLineDrawsNoise] = step.draws_noise ? 1.0f : 0.0f;
    std::copy(step.matrix.begin(), step.matrix.end(), line.begin() + kLineMatrix);
  }
}

}  // namespace latentd::schedulers
