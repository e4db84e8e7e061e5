// Steps of linear multistep methods by sigma (LMS, IPNDM): x and the derivatives by sigma at this
// noise level and at the three before it, which are kept in h1 to h3. Private to core/schedulers.
#pragma once

#include <array>

#include "core/schedulers/config/scheduler_config.h"
#include "core/schedulers/formulas/step_coefficients.h"

namespace latentd::schedulers {

inline constexpr int kDerivatives = 4;

// x' = x + Σ weights[j] d_j, with d_0 the derivative here and d_j that of j steps before; the
// derivatives move on by one. Latents are x0 + sigma * noise.
StepCoefficients AddDerivatives(PredictionType type, float sigma,
                                const std::array<double, kDerivatives>& weights);

}  // namespace latentd::schedulers
