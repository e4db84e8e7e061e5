// Pseudo linear multistep method (arXiv 2202.09778, equations 9 and 12, without Runge-Kutta steps:
// the PLMS of Stable Diffusion 1.x). From a training timestep with signal² = alpha to one stride
// below, with alpha',
//   P(x, e) = √(alpha' / alpha) x - (alpha' - alpha) e / (alpha √(1 - alpha') + √(alpha (1 - alpha)
//   alpha'))
// e the noise that this mean of the latest outputs F, F1, F2, F3 says:
//   (3 F - F1) / 2    (23 F - 16 F1 + 5 F2) / 12    (55 F - 59 F1 + 37 F2 - 9 F3) / 24
// The first two evaluations are one step, Heun's: F alone, then again from where it began with (F +
// F1) / 2, F at its end; that F is not remembered. h1 holds x between the two, and F1 after them;
// h2 and h3 hold F2 and F3.
#include <algorithm>
#include <cmath>

#include "core/base/errors/status_macros.h"
#include "core/schedulers/formulas/step_matrix.h"
#include "core/schedulers/grids/alpha_grid.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

constexpr absl::string_view kFields[] = {"set_alpha_to_one", "skip_prk_steps"};

// Weights of F, F1, F2 and F3 by the number of outputs there are.
constexpr double kMeans[][4] = {{1, 0, 0, 0},
                                {3. / 2, -1. / 2, 0, 0},
                                {23. / 12, -16. / 12, 5. / 12, 0},
                                {55. / 24, -59. / 24, 37. / 24, -9. / 24}};

void SetDefaults(SchedulerConfig& config) {
  config.timestep_spacing = TimestepSpacing::kLeading;
  config.set_alpha_to_one = false;
}

std::optional<FieldViolation> FindMistake(const SchedulerConfig& config) {
  if (!config.skip_prk_steps) {
    return FieldViolation{"skip_prk_steps",
                          "must be true (diffusers' default for PNDM is false): Runge-Kutta steps "
                          "are not supported"};
  }
  if (config.prediction_type == PredictionType::kSample) {
    return FieldViolation{"prediction_type",
                          "pndm supports epsilon and v_prediction, not sample, as in diffusers"};
  }
  return std::nullopt;
}

// The second timestep twice.
absl::Status FillGrid(Grid& grid) {
  RETURN_IF_ERROR(FillAlphaGrid(grid));
  if (grid.timesteps.size() > 1) {
    const double second = grid.timesteps[1];
    grid.timesteps.insert(grid.timesteps.begin() + 1, second);
  }
  return absl::OkStatus();
}

// P above for latents in one column of the matrix and a mean of outputs in others.
class Transfer {
 public:
  Transfer(const Grid& grid, int timestep, int next)
      : type_(grid.config.prediction_type), alpha_(AlphaAt(grid, timestep)) {
    const double alpha_next = next >= 0 ? AlphaAt(grid, next) : FinalAlpha(grid);
    of_latents_ = std::sqrt(alpha_next / alpha_);
    of_noise_ = -(alpha_next - alpha_) / (alpha_ * std::sqrt(1 - alpha_next) +
                                          std::sqrt(alpha_ * (1 - alpha_) * alpha_next));
  }

  void AddLatents(StepMatrix& matrix, Column latents) const {
    matrix.at(kX, latents) += of_latents_;
    if (type_ == PredictionType::kVPrediction) {
      matrix.at(kX, latents) += of_noise_ * std::sqrt(1 - alpha_);
    }
  }

  void AddOutput(StepMatrix& matrix, Column output, double weight) const {
    const bool v = type_ == PredictionType::kVPrediction;
    matrix.at(kX, output) += weight * of_noise_ * (v ? std::sqrt(alpha_) : 1);
  }

 private:
  PredictionType type_;
  double alpha_;
  double of_latents_ = 1;
  double of_noise_ = 0;
};

// From x, which h1 keeps.
StepMatrix FirstEvaluation(const Transfer& transfer) {
  StepMatrix matrix;
  transfer.AddLatents(matrix, kX);
  transfer.AddOutput(matrix, kOutput, 1);
  matrix.at(kH1, kX) = 1;
  matrix.at(kH2, kOutput) = 1;
  return matrix;
}

StepMatrix SecondEvaluation(const Transfer& transfer) {
  StepMatrix matrix;
  transfer.AddLatents(matrix, kH1);
  transfer.AddOutput(matrix, kOutput, 0.5);
  transfer.AddOutput(matrix, kH2, 0.5);
  matrix.at(kH1, kH2) = 1;
  return matrix;
}

// `outputs` there are, from 2 on, the last of them new.
StepMatrix LaterEvaluation(const Transfer& transfer, int outputs) {
  const double* mean = kMeans[std::min(outputs, 4) - 1];
  StepMatrix matrix;
  transfer.AddLatents(matrix, kX);
  transfer.AddOutput(matrix, kOutput, mean[0]);
  transfer.AddOutput(matrix, kH1, mean[1]);
  transfer.AddOutput(matrix, kH2, mean[2]);
  transfer.AddOutput(matrix, kH3, mean[3]);
  matrix.at(kH1, kOutput) = 1;
  matrix.at(kH2, kH1) = 1;
  matrix.at(kH3, kH2) = 1;
  return matrix;
}

StepMatrix MatrixAt(const Grid& grid, int timestep, int evaluation) {
  const int stride = grid.config.num_train_timesteps / grid.request.num_inference_steps;
  if (evaluation == 1) return SecondEvaluation({grid, timestep + stride, timestep});
  const Transfer transfer(grid, timestep, timestep - stride);
  return evaluation == 0 ? FirstEvaluation(transfer) : LaterEvaluation(transfer, evaluation);
}

// As diffusers, which counts evaluations from where a run begins, whatever timestep that is.
StepCoefficients Step(const Grid& grid, Point point) {
  const int timestep = static_cast<int>(grid.timesteps[point.index]);
  const double alpha = AlphaAt(grid, timestep);
  return {.matrix = MatrixAt(grid, timestep, point.index - point.begin).ToFloat(),
          .predicted =
              EstimateSignal(grid.config.prediction_type, std::sqrt(alpha), std::sqrt(1 - alpha))
                  .ToFloat()};
}

}  // namespace

constinit const Scheduler kPndm = {.class_name = "PNDMScheduler",
                                   .fields = kFields,
                                   .has_own_grid = true,
                                   .set_defaults = SetDefaults,
                                   .find_mistake = FindMistake,
                                   .fill_grid = FillGrid,
                                   .step = Step,
                                   .start = StartFromAlpha};

}  // namespace latentd::schedulers
