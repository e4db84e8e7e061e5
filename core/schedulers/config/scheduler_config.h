// The settings of a noise scheduler: what scheduler_config.json and a request's changes to it come
// to (core/schedulers/config.h reads them).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace latentd::schedulers {

struct Scheduler;  // core/schedulers/methods/scheduler.h

enum class BetaSchedule : uint8_t { kLinear, kScaledLinear, kSquaredcosCapV2 };
enum class PredictionType : uint8_t { kEpsilon, kVPrediction, kSample };
// "epsilon", "v_prediction", "sample".
absl::string_view NameOf(PredictionType prediction);
enum class TimestepSpacing : uint8_t { kLeading, kLinspace, kTrailing };
enum class AlgorithmType : uint8_t { kDpmSolverPlusPlus, kSdeDpmSolverPlusPlus, kDataPrediction };
enum class SolverType : uint8_t { kMidpoint, kHeun, kBh1 };
enum class FinalSigmas : uint8_t { kZero, kSigmaMin };
enum class Interpolation : uint8_t { kLinear, kLogLinear };
enum class SigmaSchedule : uint8_t { kKarras, kExponential };
enum class TimestepType : uint8_t { kDiscrete, kContinuous };
enum class VarianceType : uint8_t { kFixedSmall, kFixedLarge, kFixedLargeLog };

// Grids that a request names behind a scheduler (core/schedulers/grids/named_grid.h says what each
// is).
enum class NamedGrid : uint8_t {
  kKarras,
  kExponential,
  kBeta,
  kNormal,
  kSimple,
  kSgmUniform,
  kDdimUniform,
  kKlOptimal,
  kTurbo,
  kAlignYourSteps,
  kLinearQuadratic
};
// The networks that Align Your Steps has a table for.
enum class AlignYourStepsTable : uint8_t { kSdxl, kSd15 };

// Every other member is the field of the same name; scheduler is _class_name. Immutable once
// parsed.
struct SchedulerConfig {
  const Scheduler* scheduler = nullptr;  // lives for ever

  int num_train_timesteps = 1000;
  double beta_start = 0.0001;
  double beta_end = 0.02;
  BetaSchedule beta_schedule = BetaSchedule::kLinear;
  std::optional<std::vector<double>> trained_betas;
  bool rescale_betas_zero_snr = false;
  PredictionType prediction_type = PredictionType::kEpsilon;
  TimestepSpacing timestep_spacing = TimestepSpacing::kLinspace;
  int steps_offset = 0;

  bool use_karras_sigmas = false;
  bool use_exponential_sigmas = false;
  bool use_beta_sigmas = false;
  bool use_lu_lambdas = false;
  std::optional<double> sigma_min;
  std::optional<double> sigma_max;
  FinalSigmas final_sigmas_type = FinalSigmas::kZero;
  Interpolation interpolation_type = Interpolation::kLinear;
  TimestepType timestep_type = TimestepType::kDiscrete;

  bool clip_sample = false;
  bool set_alpha_to_one = true;
  bool skip_prk_steps = false;

  AlgorithmType algorithm_type = AlgorithmType::kDpmSolverPlusPlus;
  SolverType solver_type = SolverType::kMidpoint;
  int solver_order = 2;
  bool lower_order_final = true;
  std::vector<int> disable_corrector;  // UniPC's, by the step that is not corrected
  bool euler_at_final = false;
  double lambda_min_clipped = -std::numeric_limits<double>::infinity();

  int original_inference_steps = 50;
  double timestep_scaling = 10.0;

  double sigma_data = 0.5;
  double rho = 7.0;
  SigmaSchedule sigma_schedule = SigmaSchedule::kKarras;

  int predictor_order = 2;
  int corrector_order = 2;
  VarianceType variance_type = VarianceType::kFixedSmall;

  // No fields: what follows a scheduler's name, and the checkpoint's kind.
  std::optional<NamedGrid> named_grid;
  AlignYourStepsTable align_your_steps = AlignYourStepsTable::kSdxl;

  // The file's fields that no scheduler of diffusers' has, in alphabetical order, escaped.
  std::vector<std::string> unknown_fields;

  // "euler": the short name of the scheduler.
  absl::string_view name() const;
  // "euler_karras": the same with the grid behind it that a request named; all that names say.
  std::string full_name() const;
  // True if ScheduleRequest::eta has an effect.
  bool takes_eta() const;
};

}  // namespace latentd::schedulers
