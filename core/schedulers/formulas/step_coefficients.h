// A row of a schedule's table (core/schedulers/schedule.h says what it means).
#pragma once

#include <array>
#include <cstddef>

namespace latentd::schedulers {

inline constexpr int kStateRows = 4;  // x, h1, h2, h3
inline constexpr int kCombined = 6;   // ..., output, noise
inline constexpr size_t kMatrixElements = size_t{kStateRows} * kCombined;

// One evaluation of the network and what follows it. A step of Heun's method is two of them.
struct StepCoefficients {
  double timestep = 0;                          // the network's input; not always a whole number
  float input_scale = 1;                        // times x
  std::array<float, kMatrixElements> matrix{};  // row-major
  bool draws_noise =
      false;  // one draw of the picture's generator, at this evaluation, in this order
  // Estimate of the latents without noise: so much of x and so much of the network's output.
  std::array<float, 2> predicted{1, 0};
  int denoising_index = 0;  // the step that users count, from 0
  // The latents after this evaluation where a mask keeps an image: so much of those without noise,
  // and so much noise, as the next one begins with. The last leaves none.
  std::array<double, 2> kept{1, 0};
  // The part of the schedule that is behind, before this evaluation, as differential masks count
  // it: i / n of evaluation number i from the first on, where n are those of the schedule before
  // strength leaves some out; with denoising_start so much more.
  float passed = 0;
};

}  // namespace latentd::schedulers
