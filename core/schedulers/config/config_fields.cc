#include "core/schedulers/config/config_fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

namespace latentd::schedulers {
namespace {

using Json = nlohmann::json;
using Mistake = std::optional<std::string>;

constexpr int kMaxTrainTimesteps = 100'000;

template <typename Enum>
using Names = absl::Span<const std::pair<absl::string_view, Enum>>;

template <typename Enum>
constexpr std::pair<absl::string_view, Enum> kNames[] = {};
template <>
constexpr std::pair<absl::string_view, BetaSchedule> kNames<BetaSchedule>[] = {
    {"linear", BetaSchedule::kLinear},
    {"scaled_linear", BetaSchedule::kScaledLinear},
    {"squaredcos_cap_v2", BetaSchedule::kSquaredcosCapV2}};
template <>
constexpr std::pair<absl::string_view, PredictionType> kNames<PredictionType>[] = {
    {"epsilon", PredictionType::kEpsilon},
    {"v_prediction", PredictionType::kVPrediction},
    {"sample", PredictionType::kSample}};
template <>
constexpr std::pair<absl::string_view, TimestepSpacing> kNames<TimestepSpacing>[] = {
    {"leading", TimestepSpacing::kLeading},
    {"linspace", TimestepSpacing::kLinspace},
    {"trailing", TimestepSpacing::kTrailing}};
// diffusers reads the types of DEIS and UniPC, too, so that their files serve DPM-Solver++.
template <>
constexpr std::pair<absl::string_view, AlgorithmType> kNames<AlgorithmType>[] = {
    {"dpmsolver++", AlgorithmType::kDpmSolverPlusPlus},
    {"sde-dpmsolver++", AlgorithmType::kSdeDpmSolverPlusPlus},
    {"deis", AlgorithmType::kDpmSolverPlusPlus},
    {"data_prediction", AlgorithmType::kDataPrediction}};
template <>
constexpr std::pair<absl::string_view, SolverType> kNames<SolverType>[] = {
    {"midpoint", SolverType::kMidpoint},
    {"heun", SolverType::kHeun},
    {"logrho", SolverType::kMidpoint},
    {"bh1", SolverType::kBh1},
    {"bh2", SolverType::kMidpoint}};
template <>
constexpr std::pair<absl::string_view, FinalSigmas> kNames<FinalSigmas>[] = {
    {"zero", FinalSigmas::kZero}, {"sigma_min", FinalSigmas::kSigmaMin}};
template <>
constexpr std::pair<absl::string_view, Interpolation> kNames<Interpolation>[] = {
    {"linear", Interpolation::kLinear}, {"log_linear", Interpolation::kLogLinear}};
template <>
constexpr std::pair<absl::string_view, SigmaSchedule> kNames<SigmaSchedule>[] = {
    {"karras", SigmaSchedule::kKarras}, {"exponential", SigmaSchedule::kExponential}};
template <>
constexpr std::pair<absl::string_view, TimestepType> kNames<TimestepType>[] = {
    {"discrete", TimestepType::kDiscrete}, {"continuous", TimestepType::kContinuous}};

template <typename Enum>
Mistake Read(const Json& value, Enum& out) {
  const Names<Enum> names = kNames<Enum>;
  for (const auto& [name, member] : names) {
    if (value.is_string() && name == value.get_ref<const std::string&>()) {
      out = member;
      return std::nullopt;
    }
  }
  return absl::StrCat("must be one of ",
                      absl::StrJoin(names, ", ", [](std::string* text, const auto& row) {
                        text->append(row.first.data(), row.first.size());
                      }));
}

// None is false in Python.
Mistake Read(const Json& value, bool& out) {
  if (!value.is_boolean() && !value.is_null()) return "must be true or false";
  out = value.is_boolean() && value.get<bool>();
  return std::nullopt;
}

Mistake Read(const Json& value, double& out) {
  if (!value.is_number()) return "must be a number";
  out = value.get<double>();
  return std::nullopt;
}

template <int low, int high>
Mistake ReadInteger(const Json& value, int& out) {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!(low <= number && number <= high) || number != std::trunc(number)) {
    return absl::StrCat("must be a whole number from ", low, " to ", high);
  }
  out = static_cast<int>(number);
  return std::nullopt;
}

template <auto member>
Mistake Into(const Json& value, SchedulerConfig& config) {
  return Read(value, config.*member);
}

template <auto member, int low, int high>
Mistake IntegerInto(const Json& value, SchedulerConfig& config) {
  return ReadInteger<low, high>(value, config.*member);
}

template <auto member>
Mistake BetaInto(const Json& value, SchedulerConfig& config) {
  double beta = 0;
  if (Read(value, beta) || beta <= 0 || beta >= 1) return "must be a number between 0 and 1";
  config.*member = beta;
  return std::nullopt;
}

template <auto member>
Mistake SigmaInto(const Json& value, SchedulerConfig& config) {
  double sigma = 1;
  if (value.is_null()) return std::nullopt;
  if (Read(value, sigma) || !(0 < sigma && sigma < 1e6)) return "must be null or a positive number";
  config.*member = sigma;
  return std::nullopt;
}

Mistake ReadTrainedBetas(const Json& value, SchedulerConfig& config) {
  if (value.is_null()) return std::nullopt;
  const auto is_beta = [](const Json& beta) {
    return beta.is_number() && 0 < beta.get<double>() && beta.get<double>() < 1;
  };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_beta)) {
    return "must be null or numbers between 0 and 1";
  }
  config.trained_betas = value.get<std::vector<double>>();
  return std::nullopt;
}

// Python writes -inf, which means no clipping, as -Infinity.
Mistake ReadLambdaMin(const Json& value, SchedulerConfig& config) {
  if (value == "-Infinity") return std::nullopt;
  return Read(value, config.lambda_min_clipped);
}

Mistake ReadNonLinear(const Json& value, bool& out) {
  Mistake mistake = Read(value, out);
  if (mistake || !std::exchange(out, false)) return mistake;
  return "must be false: it is not linear in what a step combines";
}

Mistake ReadClipSample(const Json& value, SchedulerConfig& config) {
  return ReadNonLinear(value, config.clip_sample);
}

Mistake ReadThresholding(const Json& value, SchedulerConfig&) {
  bool thresholding = false;
  return ReadNonLinear(value, thresholding);
}

template <auto member>
Mistake PositiveInto(const Json& value, SchedulerConfig& config) {
  double number = 0;
  if (Read(value, number) || !(0 < number && number < 1e6)) return "must be a positive number";
  config.*member = number;
  return std::nullopt;
}

Mistake ReadDisableCorrector(const Json& value, SchedulerConfig& config) {
  const auto is_step = [](const Json& step) { return step.is_number_integer(); };
  if (value.is_null()) return std::nullopt;
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_step)) {
    return "must be whole numbers";
  }
  config.disable_corrector.clear();
  for (const Json& step : value) {
    const double number = step.get<double>();
    if (0 <= number && number < kMaxTrainTimesteps) {
      config.disable_corrector.push_back(static_cast<int>(number));
    }
  }
  return std::nullopt;
}

Mistake ReadPredictX0(const Json& value, SchedulerConfig&) {
  if (value == true) return std::nullopt;
  return "must be true: UniPC in terms of noise is not supported";
}

Mistake ReadSolverP(const Json& value, SchedulerConfig&) {
  if (value.is_null()) return std::nullopt;
  return "must be null: another solver as its predictor is not supported";
}

Mistake ReadOff(const Json& value, SchedulerConfig&) {
  if (value.is_null() || value == false) return std::nullopt;
  return "must be false: it belongs to flow matching, which is not supported";
}

// Has an effect with DDPM only; there fixed_small_log results in the same as fixed_small.
Mistake ReadVarianceType(const Json& value, SchedulerConfig& config) {
  if (value == "learned" || value == "learned_range") {
    return "must be null: a network that predicts its variance is not supported";
  }
  config.variance_type = value == "fixed_large"       ? VarianceType::kFixedLarge
                         : value == "fixed_large_log" ? VarianceType::kFixedLargeLog
                                                      : VarianceType::kFixedSmall;
  return std::nullopt;
}

Mistake ReadTauFunc(const Json& value, SchedulerConfig&) {
  if (value.is_null()) return std::nullopt;
  return "must be null: a function of one's own is not supported";
}

using C = SchedulerConfig;
constexpr ConfigField kFields[] = {
    {"num_train_timesteps", IntegerInto<&C::num_train_timesteps, 2, kMaxTrainTimesteps>},
    {"beta_start", BetaInto<&C::beta_start>},
    {"beta_end", BetaInto<&C::beta_end>},
    {"beta_schedule", Into<&C::beta_schedule>},
    {"trained_betas", ReadTrainedBetas},
    {"rescale_betas_zero_snr", Into<&C::rescale_betas_zero_snr>},
    {"prediction_type", Into<&C::prediction_type>},
    {"timestep_spacing", Into<&C::timestep_spacing>},
    {"steps_offset", IntegerInto<&C::steps_offset, 0, kMaxTrainTimesteps>},
    {"use_karras_sigmas", Into<&C::use_karras_sigmas>},
    {"use_exponential_sigmas", Into<&C::use_exponential_sigmas>},
    {"use_beta_sigmas", Into<&C::use_beta_sigmas>},
    {"use_lu_lambdas", Into<&C::use_lu_lambdas>},
    {"sigma_min", SigmaInto<&C::sigma_min>},
    {"sigma_max", SigmaInto<&C::sigma_max>},
    {"final_sigmas_type", Into<&C::final_sigmas_type>},
    {"interpolation_type", Into<&C::interpolation_type>},
    {"timestep_type", Into<&C::timestep_type>},
    {"clip_sample", ReadClipSample},
    {"thresholding", ReadThresholding},
    {"set_alpha_to_one", Into<&C::set_alpha_to_one>},
    {"skip_prk_steps", Into<&C::skip_prk_steps>},
    {"algorithm_type", Into<&C::algorithm_type>},
    {"solver_type", Into<&C::solver_type>},
    {"solver_order", IntegerInto<&C::solver_order, 1, 3>},
    {"lower_order_final", Into<&C::lower_order_final>},
    {"disable_corrector", ReadDisableCorrector},
    {"predict_x0", ReadPredictX0},
    {"solver_p", ReadSolverP},
    {"sigma_data", PositiveInto<&C::sigma_data>},
    {"rho", PositiveInto<&C::rho>},
    {"sigma_schedule", Into<&C::sigma_schedule>},
    {"euler_at_final", Into<&C::euler_at_final>},
    {"lambda_min_clipped", ReadLambdaMin},
    {"original_inference_steps", IntegerInto<&C::original_inference_steps, 1, kMaxTrainTimesteps>},
    {"timestep_scaling", Into<&C::timestep_scaling>},
    {"use_flow_sigmas", ReadOff},
    {"use_dynamic_shifting", ReadOff},
    {"variance_type", ReadVarianceType},
    {"predictor_order", IntegerInto<&C::predictor_order, 1, 4>},
    {"corrector_order", IntegerInto<&C::corrector_order, 1, 4>},
    {"tau_func", ReadTauFunc},
};

constexpr absl::string_view kForeignFields[] = {"base_image_seq_len",
                                                "base_shift",
                                                "clip_denoised",
                                                "clip_sample_range",
                                                "dynamic_thresholding_ratio",
                                                "eta",
                                                "flow_shift",
                                                "gamma",
                                                "invert_sigmas",
                                                "max_image_seq_len",
                                                "max_shift",
                                                "noise_sampler_seed",
                                                "s_churn",
                                                "s_max",
                                                "s_min",
                                                "s_noise",
                                                "sample_max_value",
                                                "scale_factors",
                                                "shift",
                                                "shift_terminal",
                                                "snr_shift_scale",
                                                "stochastic_sampling",
                                                "time_shift_type",
                                                "upscale_mode"};

}  // namespace

absl::string_view NameOf(PredictionType prediction) {
  const auto* const found =
      std::find_if(std::begin(kNames<PredictionType>), std::end(kNames<PredictionType>),
                   [prediction](const auto& entry) { return entry.second == prediction; });
  return found->first;
}

const ConfigField* FindField(absl::string_view name) {
  for (const ConfigField& field : kFields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

bool IsForeignField(absl::string_view name) {
  return std::find(std::begin(kForeignFields), std::end(kForeignFields), name) !=
         std::end(kForeignFields);
}

}  // namespace latentd::schedulers
