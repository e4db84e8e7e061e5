// The grid of schedulers for networks that were distilled at original_inference_steps of the
// training timesteps (LCM, TCD). Private to this directory.
#pragma once

#include <optional>

#include "core/schedulers/scheduler.h"

namespace latentd::schedulers {

// More original_inference_steps than the network was trained at.
std::optional<FieldViolation> FindDistilledMistake(const SchedulerConfig& config);

// Timesteps among those, or the request's own, and alphas_cumprod.
absl::Status FillDistilledGrid(Grid& grid);

}  // namespace latentd::schedulers
