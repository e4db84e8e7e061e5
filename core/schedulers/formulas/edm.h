// The parametrisation of networks in the style of EDM (arXiv 2206.00364: Playground v2.5, CosXL):
// latents are x0 + sigma * n, the network sees x / √(sigma² + sigma_data²), and
//   x0 = sigma_data² / (sigma² + sigma_data²) x + sigma sigma_data / √(sigma² + sigma_data²) output
// with the minus of v_prediction in place of the plus of epsilon. Private to core/schedulers.
#pragma once

#include <optional>

#include "core/base/errors/error_details.h"
#include "core/schedulers/config/scheduler_config.h"
#include "core/schedulers/formulas/step_matrix.h"

namespace latentd::schedulers {

// sample has no meaning there.
std::optional<FieldViolation> FindEdmMistake(const SchedulerConfig& config);

float EdmInputScale(const SchedulerConfig& config, double sigma);
Estimate EdmOriginal(const SchedulerConfig& config, double sigma);

}  // namespace latentd::schedulers
