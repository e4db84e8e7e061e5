// Grids that are named behind a scheduler, after those of the web UIs: noise levels of their own,
// whatever scheduler runs over them. Private to core/schedulers.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "core/schedulers/config/scheduler_config.h"

namespace latentd::schedulers {

// Sigmas of config.named_grid for so many steps, without the one after the last; kDdimUniform may
// have more. With `last` the last training timestep and sigmas between two interpolated linearly in
// the logarithm:
//   kKarras, kExponential, kBeta
//                     as diffusers' use_karras_sigmas and the like, but always from
//                     config.sigma_max (else the largest) down to config.sigma_min (else the
//                     least), and without rounding of timesteps
//   kNormal           at timesteps from `last` down to 0, evenly
//   kSgmUniform       the same with one more, and without that, 0
//   kSimple           at last - ⌊i (last + 1) / steps⌋
//   kTurbo            at round(i (last + 1) / steps) - 1, i from `steps` down to 1
//   kDdimUniform      at 1, and every ⌊(last + 1) / steps⌋ from there
//   kKlOptimal        tan of what lies evenly between the arcs of the largest and the least
//   kAlignYourSteps   the table of arXiv 2404.14507 for config.align_your_steps, whose points are
//                     interpolated in the logarithm for other numbers of steps than 10
//   kLinearQuadratic  the largest, less a line that falls by 0.025 of it over the first ⌊steps / 2⌋
//                     steps, and from there on by a square more, which ends at 0: ComfyUI's, made
//                     for flow matching
// REQUIRES: config.named_grid.
std::vector<double> NamedSigmas(const SchedulerConfig& config, absl::Span<const float> training,
                                int steps);

}  // namespace latentd::schedulers
