#include "core/pipeline/stage.h"

#include <algorithm>

namespace latentd::pipeline {
namespace {

// The first evaluation that belongs to a step not before this one.
size_t FirstOf(int step, const schedulers::Schedule& schedule) {
  const auto first = std::partition_point(
      schedule.steps.begin(), schedule.steps.end(),
      [&](const schedulers::StepCoefficients& line) { return line.denoising_index < step; });
  return static_cast<size_t>(first - schedule.steps.begin());
}

}  // namespace

// As _is_cfg_enabled of diffusers' ClassifierFreeGuidance counts, but that the two evaluations of a
// step of Heun's method are one step.
void SetGuided(const GuidanceInterval& interval, std::vector<Stage>& stages) {
  int total = 0;
  for (const Stage& stage : stages) total += stage.schedule.denoising_steps();
  int begin = static_cast<int>(interval.start * total);
  int end = static_cast<int>(interval.stop * total);
  for (Stage& stage : stages) {
    stage.guided_begin = FirstOf(begin, stage.schedule);
    stage.guided_end = FirstOf(end, stage.schedule);
    begin -= stage.schedule.denoising_steps();
    end -= stage.schedule.denoising_steps();
  }
}

}  // namespace latentd::pipeline
