#include "core/pipeline/picture.h"

namespace latentd::pipeline {

int Request::steps_before(size_t stage) const {
  int steps = 0;
  for (size_t i = 0; i < stage; ++i) steps += stages[i].schedule.denoising_steps();
  return steps;
}

int Picture::total_steps() const { return request->steps_before(request->stages.size()); }

Lane Picture::lane() const { return LaneOf(model()); }

Lane Picture::LaneOf(Model which) const {
  const Size& size = request->executed_size;
  return {.network = static_cast<int>(which),
          .width = size.width,
          .height = size.height,
          .only = request->alone ? reinterpret_cast<uintptr_t>(this) : 0};
}

batching::Ahead Picture::ahead() const {
  batching::Ahead ahead;
  ahead.stages.front().lane = lane();
  ahead.decode = next != UnitKind::kDone;
  const bool has_steps = ahead.decode && next != UnitKind::kDecode && next != UnitKind::kWait;
  if (!has_steps) return ahead;
  ahead.encode = stage_index == 0 && next != UnitKind::kStep && !request->spec.image.empty();
  for (size_t i = stage_index; i < request->stages.size(); ++i) {
    const Stage& left = request->stages[i];
    const size_t done = i == stage_index ? evaluation : 0;
    ahead.stages[i - stage_index] = {
        .lane = LaneOf(left.which),
        .text = !request->conditioning[i].has_value(),
        .evaluations = static_cast<int>(left.schedule.steps.size() - done)};
  }
  return ahead;
}

}  // namespace latentd::pipeline
