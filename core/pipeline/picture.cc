#include "core/pipeline/picture.h"

#include <algorithm>

#include "core/pipeline/preview.h"

namespace latentd::pipeline {

int Request::steps_before(size_t stage) const {
  int steps = 0;
  for (size_t i = 0; i < stage; ++i) steps += stages[i].schedule.denoising_steps();
  return steps;
}

int Picture::next_rows() const { return stage().IsGuided(evaluation) ? rows() : 1; }

int Picture::rows_ahead() const {
  return std::max(evaluation, stage().guided_begin) < stage().guided_end ? rows() : 1;
}

bool Picture::has_preview() const {
  const bool steps =
      next == UnitKind::kText || next == UnitKind::kEncode || next == UnitKind::kStep;
  return prediction.step > 0 && steps;
}

int Picture::total_steps() const { return request->steps_before(request->stages.size()); }

Lane Picture::lane() const { return LaneOf(model().id); }

Lane Picture::LaneOf(ModelId model) const {
  const Size& size = request->executed_size;
  return {.network = model.value,
          .width = size.width,
          .height = size.height,
          .only = request->alone ? reinterpret_cast<uintptr_t>(this) : 0};
}

batching::Ahead Picture::ahead() const {
  batching::Ahead ahead;
  ahead.stages.front().lane = lane();
  const bool done = next == UnitKind::kDone;
  ahead.decode = !done && !request->spec.output_latents;
  const bool has_steps = !done && next != UnitKind::kDecode && next != UnitKind::kWait;
  if (!has_steps) return ahead;
  ahead.encode = stage_index == 0 && next != UnitKind::kStep && !request->spec.image.empty();
  ahead.colors = NeedsColors(*request) && next == UnitKind::kText;
  for (size_t i = stage_index; i < request->stages.size(); ++i) {
    const Stage& left = request->stages[i];
    const size_t done = i == stage_index ? evaluation : 0;
    const size_t all = left.schedule.steps.size();
    const size_t guided_end = std::max(left.guided_end, done);
    const size_t guided_begin = std::clamp(left.guided_begin, done, guided_end);
    ahead.stages[i - stage_index] = {.lane = LaneOf(left.model->row().id),
                                     .text = !request->conditioning[i].has_value(),
                                     .evaluations = static_cast<int>(all - done),
                                     .narrow_first = static_cast<int>(guided_begin - done),
                                     .narrow_last = static_cast<int>(all - guided_end),
                                     .previews = PreviewsAhead(*this, i)};
  }
  return ahead;
}

}  // namespace latentd::pipeline
