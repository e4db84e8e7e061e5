// Quantiles of the beta distribution, for noise levels spread by them. Private to core/schedulers.
#pragma once

namespace latentd::schedulers {

// The x in [0, 1] below which the share `probability` of a beta distribution with shapes a and b
// lies, to double precision. REQUIRES: 0 <= probability <= 1, a > 0, b > 0.
double BetaQuantile(double probability, double a, double b);

}  // namespace latentd::schedulers
