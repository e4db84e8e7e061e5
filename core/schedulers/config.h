// The settings of a noise scheduler: scheduler_config.json, with what a request changes of it laid
// over.
//
// A field that the scheduler does not know is passed over, as diffusers' from_config does, so that
// a request may name another scheduler than the checkpoint's; one of a file that no scheduler of
// diffusers' has can be told (unknown_fields), and one that a request lays over is refused by name.
// So is a value that is not linear in what a step combines (clip_sample, thresholding) or not
// supported. An absent field has the default of diffusers' class. Two exceptions: diffusers' DDIM
// clips unless told not to, which no latent model wants, and its PNDM begins with Runge-Kutta steps
// unless told not to, so a request that names either over another scheduler's file that says
// nothing of clip_sample or skip_prk_steps gets false and true.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/schedulers/options.h"

namespace latentd::schedulers {

struct Scheduler;  // core/schedulers/scheduler.h

enum class BetaSchedule : uint8_t { kLinear, kScaledLinear, kSquaredcosCapV2 };
enum class PredictionType : uint8_t { kEpsilon, kVPrediction, kSample };
enum class TimestepSpacing : uint8_t { kLeading, kLinspace, kTrailing };
enum class AlgorithmType : uint8_t { kDpmSolverPlusPlus, kSdeDpmSolverPlusPlus };
enum class SolverType : uint8_t { kMidpoint, kHeun, kBh1 };
enum class FinalSigmas : uint8_t { kZero, kSigmaMin };
enum class Interpolation : uint8_t { kLinear, kLogLinear };
enum class SigmaSchedule : uint8_t { kKarras, kExponential };
enum class TimestepType : uint8_t { kDiscrete, kContinuous };

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

  // The file's fields that no scheduler of diffusers' has, in alphabetical order, escaped.
  std::vector<std::string> unknown_fields;

  // "euler": the short name of the scheduler.
  absl::string_view name() const;
  // True if ScheduleRequest::eta has an effect.
  bool takes_eta() const;
};

// A scheduler_config.json as it was read once, for the requests that lay something over it.
// Immutable; copies share what was read.
class SchedulerFile {
 public:
  // `json` is the file's text, and `class_name` what model_index.json says of it, which counts more
  // than the file's own _class_name, as in diffusers; empty: the file's. INVALID_ARGUMENT: it is no
  // JSON object.
  static absl::StatusOr<SchedulerFile> Parse(absl::string_view json,
                                             absl::string_view class_name = {});

  // The settings of the file with `overrides` laid over. INVALID_ARGUMENT, with a field violation
  // for each of the overrides that cannot be met (fields "scheduler", "timestep_spacing", ...:
  // their names in Overrides, `name` as "scheduler"), or without violations where the file itself
  // is at fault.
  absl::StatusOr<SchedulerConfig> With(const Overrides& overrides) const;

  // The file with the fields of a JSON object laid over its own, the class among them. Empty: as it
  // is. INVALID_ARGUMENT: it is no JSON object.
  absl::StatusOr<SchedulerFile> Over(absl::string_view json) const;

  // The class of the scheduler that the checkpoint was made for.
  const std::string& class_name() const;

 private:
  struct Parsed;
  explicit SchedulerFile(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}

  std::shared_ptr<const Parsed> parsed_;
};

// SchedulerFile::Parse and With, for a file that is read for one use.
absl::StatusOr<SchedulerConfig> ParseSchedulerConfig(absl::string_view json,
                                                     const Overrides& overrides = {},
                                                     absl::string_view class_name = {});

// The short names, in the order of the table: "euler", "euler_a", "ddim", ...
std::vector<std::string> SupportedSchedulers();

// INVALID_ARGUMENT with the short names unless `name` may stand in Overrides::name.
absl::Status CheckSchedulerName(absl::string_view name);

}  // namespace latentd::schedulers
