// The grid of schedulers in terms of sigma whose steps look at a noise level between theirs and the
// next one (DPM2, DPM++ SDE, DPM++ 2S a). Private to core/schedulers.
#pragma once

#include "core/schedulers/grids/grid.h"

namespace latentd::schedulers {

// The noise level that a step from sigma to sigma_next looks at: √(sigma sigma_next), or where the
// step adds ancestral noise, and so goes down to sigma_next² / sigma, the mean of sigma and that,
// which is sigma_next.
double MiddleOf(double sigma, double sigma_next);
double AncestralMiddleOf(double sigma, double sigma_next);

// The sigma grid (core/schedulers/grids/sigma_grid.h) with a middle between each two noise levels
// but the last two: two evaluations a step, and one for the last.
void FillMiddleGrid(Grid& grid, double (*middle)(double sigma, double sigma_next));

// As StartFromSigma, but that diffusers has no noise levels of the middles: its inpainting noises
// an image for them as for the end of their step.
StartScales StartFromMiddle(const Grid& grid, int index);

// An evaluation of a run on that grid.
struct MiddlePoint {
  MiddlePoint(const Grid& grid, Point point);

  bool first;     // true for the first of its step, false for the one at the middle
  double start;   // sigma at which the step began
  float sigma;    // at this evaluation
  double target;  // sigma to which this evaluation goes: the middle, or the step's end
};

}  // namespace latentd::schedulers
