// Defaults and limits that several schedulers have in common. Private to core/schedulers.
#pragma once

#include <optional>

#include "core/base/errors/error_details.h"
#include "core/schedulers/config/scheduler_config.h"

namespace latentd::schedulers {

// Stable Diffusion's betas, the defaults of diffusers' classes after k-diffusion.
void SetBetasOfStableDiffusion(SchedulerConfig& config);

// prediction_type sample, which some of diffusers' classes do not have; nullopt: it is another.
std::optional<FieldViolation> FindSample(const SchedulerConfig& config);

}  // namespace latentd::schedulers
