// The grid of schedulers for networks that were distilled at original_inference_steps of the
// training timesteps (LCM, TCD). Private to core/schedulers.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "core/base/errors/error_details.h"
#include "core/schedulers/grids/grid.h"

namespace latentd::schedulers {

// More original_inference_steps than the network was trained at.
std::optional<FieldViolation> FindDistilledMistake(const SchedulerConfig& config);

// Timesteps among those, or the request's own, and alphas_cumprod.
absl::Status FillDistilledGrid(Grid& grid);

}  // namespace latentd::schedulers
