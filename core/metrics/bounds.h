// The upper bounds of histograms' buckets (families.h): seconds, but for rows and ratios.
#pragma once

namespace latentd::metrics::bounds {

inline constexpr double kCompile[] = {.01, .05, .1,  .5,  1,   2,    5,   10,
                                      30,  60,  120, 300, 600, 1200, 1800};
inline constexpr double kRequest[] = {.1, .25, .5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120, 300};
inline constexpr double kStep[] = {.001, .0025, .005, .01, .025, .05, .1,
                                   .25,  .5,    1,    2.5, 5,    10,  30};
inline constexpr double kRows[] = {1, 2, 4, 8, 16};
inline constexpr double kRatio[] = {.25, .5, .67, .8, .9, 1, 1.1, 1.25, 1.5, 2, 4};

}  // namespace latentd::metrics::bounds
