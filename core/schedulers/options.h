// Which noise scheduler with which settings: scheduler_config.json, and what a request changes of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd::schedulers {

// What a request may change. Names and values are diffusers'; an absent one keeps the checkpoint's.
struct Overrides {
  std::string name;  // "euler", "EulerDiscreteScheduler", ...; empty: the checkpoint's
  std::optional<std::string> timestep_spacing;  // leading, linspace, trailing
  std::optional<std::string> prediction_type;   // epsilon, v_prediction
  std::optional<std::string> algorithm_type;    // dpmsolver++, sde-dpmsolver++
  std::optional<bool> use_karras_sigmas;
  std::optional<bool> rescale_betas_zero_snr;

  bool operator==(const Overrides&) const = default;
};

}  // namespace latentd::schedulers
