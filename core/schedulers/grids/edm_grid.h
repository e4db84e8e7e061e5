// The grid of networks in the style of EDM (arXiv 2206.00364: Playground v2.5, CosXL), whose
// "timestep" is log(sigma) / 4, which is no whole number and may be negative. Private to
// core/schedulers.
#pragma once

#include "core/schedulers/grids/grid.h"

namespace latentd::schedulers {

// Sigmas from sigma_max down to sigma_min by sigma_schedule, then that or 0, as final_sigmas_type
// says; timesteps and the initial noise scale.
void FillEdmGrid(Grid& grid);

}  // namespace latentd::schedulers
