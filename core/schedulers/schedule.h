// A noise scheduler's whole run as a table of coefficients, computed on the host before the first
// step.
//
// All schedulers here are linear in what they combine. With the state S = [x, h1, h2, h3] (x the
// latents, h what a multi-step method remembers; all h zero at first), an evaluation of the network
// at row k of the table is
//   network input  input_scale * x, at `timestep`
//   S' = matrix * [x, h1, h2, h3, output, noise]
// with `output` the network's output after guidance (whatever prediction_type says it means) and
// `noise` a fresh draw of standard normal numbers where draws_noise says so (else anything finite,
// or zero). x after the last row is the result.
//
// Values agree with diffusers' float32 to its rounding; formulas are in each scheduler's file. Pure
// functions: any thread.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/schedulers/config.h"
#include "core/schedulers/config/schedule_request.h"
#include "core/schedulers/formulas/step_coefficients.h"

namespace latentd::schedulers {

// A row of the table as numbers, as graphs read it: where in a line each of them is. draws_noise is
// 0 or 1, the matrix row-major.
inline constexpr size_t kLineTimestep = 0;
inline constexpr size_t kLineInputScale = 1;
inline constexpr size_t kLineDrawsNoise = 2;
inline constexpr size_t kLineMatrix = 3;
inline constexpr size_t kLineElements = kLineMatrix + kMatrixElements;

struct Schedule {
  double initial_noise_scale = 1;  // text-to-image starts from x = initial_noise_scale * noise

  // Image-to-image starts from x = start_image_scale * latents of the image + start_noise_scale *
  // noise.
  double start_image_scale = 1;
  double start_noise_scale = 0;

  // In order. Empty where denoising_start or denoising_end leaves nothing to do, as in diffusers: x
  // stays what it is.
  std::vector<StepCoefficients> steps;

  // How many steps users count; 0 if empty.
  int denoising_steps() const { return steps.empty() ? 0 : steps.back().denoising_index + 1; }
};

// The schedule's table: a line of kLineElements for each evaluation, then nothing. REQUIRES: room
// for all of them.
void WriteTable(const Schedule& schedule, absl::Span<float> table);

// The latents without noise, as the network predicts them at that step, from what is there around
// it, since its output is not: so much of x after the step, of S before it, and of its noise. Where
// the output changes nothing in x, x after the step stands for them.
inline constexpr size_t kPredictionTerms = 1 + kStateRows + 1;
std::array<float, kPredictionTerms> PredictionWeights(const StepCoefficients& step);

// INVALID_ARGUMENT with a field violation for every field of the request at fault.
absl::StatusOr<Schedule> MakeSchedule(const SchedulerConfig& config,
                                      const ScheduleRequest& request);

}  // namespace latentd::schedulers
