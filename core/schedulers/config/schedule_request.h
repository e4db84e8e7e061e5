// Parameters of a request's schedule, beside the noise scheduler's settings.
#pragma once

#include <optional>
#include <vector>

namespace latentd::schedulers {

// Parameters of diffusers' pipelines, with their names.
struct ScheduleRequest {
  int num_inference_steps = 50;

  // A schedule of one's own, falling; num_inference_steps then has no effect. At most one of the
  // two, and only for schedulers that take them in diffusers. Sigmas end with the one after the
  // last step (0, as a rule), so that there are two at least.
  std::vector<double> timesteps;
  std::vector<double> sigmas;

  double eta = 0;  // in [0, 1]; has an effect with DDIM and TCD only

  // Image-to-image: the part of the schedule, from its end, that is run; in (0, 1]. At most one of
  // this and denoising_start.
  std::optional<double> strength;

  // An ensemble of experts: the first runs down to where the fraction denoising_end of the training
  // timesteps lies, the second goes on from denoising_start. Latents are handed over as they are:
  // nothing is scaled. In (0, 1); denoising_end may also be 1, which cuts nothing.
  std::optional<double> denoising_start;
  std::optional<double> denoising_end;
};

}  // namespace latentd::schedulers
