// A request's changes to the noise scheduler that its checkpoint names.
#pragma once

#include <optional>
#include <string>

namespace latentd::schedulers {

// Names and values are diffusers'; an absent one keeps the checkpoint's. Each of these is refused,
// by name, where the scheduler has no such option: a request never asks for something in vain.
struct Overrides {
  std::string name;  // "euler", "EulerDiscreteScheduler", ... (SupportedSchedulers()); empty: the
                     // checkpoint's
  std::optional<std::string> timestep_spacing;  // leading, linspace, trailing
  std::optional<std::string> prediction_type;   // epsilon, v_prediction, sample
  std::optional<std::string> algorithm_type;    // dpmsolver++, sde-dpmsolver++
  std::optional<bool> use_karras_sigmas;
  std::optional<bool> rescale_betas_zero_snr;

  // A JSON object with any other fields of scheduler_config.json, laid over the checkpoint's;
  // empty: none. As in diffusers' Scheduler.from_config({**checkpoint, **these}), a field that only
  // other schedulers know has no effect.
  std::string config;

  bool operator==(const Overrides&) const = default;
};

}  // namespace latentd::schedulers
