#include "core/pipeline/picture.h"

namespace latentd::pipeline {

int Request::steps_before(size_t stage) const {
  int steps = 0;
  for (size_t i = 0; i < stage; ++i) steps += stages[i].schedule.denoising_steps();
  return steps;
}

int Picture::total_steps() const { return request->steps_before(request->stages.size()); }

Lane Picture::lane() const {
  const Size& size = request->executed_size;
  return {.network = static_cast<int>(model()),
          .width = size.width,
          .height = size.height,
          .only = request->alone ? reinterpret_cast<uintptr_t>(this) : 0};
}

}  // namespace latentd::pipeline
