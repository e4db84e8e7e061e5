#include "core/weights/containers/recognize/file_family.h"

#include <nlohmann/json.hpp>

namespace latentd::weights {
namespace {

using nlohmann::json;

// In the order of FileFamily.
constexpr FamilyDefaults kDefaults[] = {{.title = "Stable Diffusion 1",
                                         .pipeline_class = "StableDiffusionPipeline",
                                         .architecture = "stable-diffusion-v1",
                                         .heads = 8,
                                         .upcast_attention = false,
                                         .sample_size = 64,
                                         .velocity_sample_size = 64,
                                         .scaling_factor = 0.18215,
                                         .time_ids = 0,
                                         .force_zeros_for_empty_prompt = true,
                                         .requires_aesthetics_score = false},
                                        // Scores of 2.1's attention do not fit fp16.
                                        {.title = "Stable Diffusion 2",
                                         .pipeline_class = "StableDiffusionPipeline",
                                         .architecture = "stable-diffusion-v2",
                                         .heads = 0,
                                         .upcast_attention = true,
                                         .sample_size = 64,
                                         .velocity_sample_size = 96,
                                         .scaling_factor = 0.18215,
                                         .time_ids = 0,
                                         .force_zeros_for_empty_prompt = true,
                                         .requires_aesthetics_score = false},
                                        {.title = "Stable Diffusion XL (base)",
                                         .pipeline_class = "StableDiffusionXLPipeline",
                                         .architecture = "stable-diffusion-xl",
                                         .heads = 0,
                                         .upcast_attention = false,
                                         .sample_size = 128,
                                         .velocity_sample_size = 128,
                                         .scaling_factor = 0.13025,
                                         .time_ids = 6,
                                         .force_zeros_for_empty_prompt = true,
                                         .requires_aesthetics_score = false},
                                        {.title = "Stable Diffusion XL (refiner)",
                                         .pipeline_class = "StableDiffusionXLImg2ImgPipeline",
                                         .architecture = "stable-diffusion-xl-v1-refiner",
                                         .heads = 0,
                                         .upcast_attention = false,
                                         .sample_size = 128,
                                         .velocity_sample_size = 128,
                                         .scaling_factor = 0.13025,
                                         .time_ids = 5,
                                         .force_zeros_for_empty_prompt = false,
                                         .requires_aesthetics_score = true}};

json BetasOfStableDiffusion() {
  return {{"beta_start", 0.00085},
          {"beta_end", 0.012},
          {"beta_schedule", "scaled_linear"},
          {"num_train_timesteps", 1000},
          {"steps_offset", 1}};
}

// Playground v2.5's: DPM-Solver++ on EDM's grid.
json EdmScheduler() {
  return {{"_class_name", "EDMDPMSolverMultistepScheduler"},
          {"algorithm_type", "dpmsolver++"},
          {"final_sigmas_type", "zero"},
          {"lower_order_final", true},
          {"num_train_timesteps", 1000},
          {"prediction_type", "epsilon"},
          {"rho", 7.0},
          {"sigma_data", 0.5},
          {"sigma_max", 80.0},
          {"sigma_min", 0.002},
          {"sigma_schedule", "karras"},
          {"solver_order", 2},
          {"solver_type", "midpoint"}};
}

json EulerScheduler() {
  json config = BetasOfStableDiffusion();
  config["_class_name"] = "EulerDiscreteScheduler";
  config["interpolation_type"] = "linear";
  config["timestep_spacing"] = "leading";
  config["use_karras_sigmas"] = false;
  return config;
}

// Stable Diffusion 1 and 2: PLMS, and DDIM for all but the noise.
json EarlyScheduler(bool is_epsilon) {
  json config = BetasOfStableDiffusion();
  config["_class_name"] = is_epsilon ? "PNDMScheduler" : "DDIMScheduler";
  config["clip_sample"] = false;
  config["set_alpha_to_one"] = false;
  config["skip_prk_steps"] = true;
  config["timestep_spacing"] = "leading";
  return config;
}

json SettingsOf(NoisePrediction prediction) {
  json settings = json::object();
  settings["prediction_type"] = IsVelocity(prediction) ? "v_prediction" : "epsilon";
  if (prediction == NoisePrediction::kSample) settings["prediction_type"] = "sample";
  if (prediction != NoisePrediction::kVelocityZeroSnr) return settings;
  settings["rescale_betas_zero_snr"] = true;
  // The other spacings never begin at the timestep without signal.
  settings["timestep_spacing"] = "trailing";
  return settings;
}

}  // namespace

const FamilyDefaults& DefaultsOf(FileFamily family) {
  return kDefaults[static_cast<size_t>(family)];
}

bool IsVelocity(NoisePrediction prediction) {
  return prediction == NoisePrediction::kVelocity ||
         prediction == NoisePrediction::kVelocityZeroSnr;
}

std::string SchedulerSettingsOf(NoisePrediction prediction) {
  return SettingsOf(prediction).dump();
}

std::string SchedulerConfigOf(FileFamily family, NoisePrediction prediction) {
  if (prediction == NoisePrediction::kEdm) return EdmScheduler().dump(2);
  const bool is_xl = family == FileFamily::kXlBase || family == FileFamily::kXlRefiner;
  json config = is_xl ? EulerScheduler() : EarlyScheduler(prediction == NoisePrediction::kEpsilon);
  config.update(SettingsOf(prediction));
  return config.dump(2);
}

}  // namespace latentd::weights
