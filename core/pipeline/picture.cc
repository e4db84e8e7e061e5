#include "core/pipeline/picture.h"

#include "absl/hash/hash.h"

namespace latentd::pipeline {

int Request::steps_before(size_t stage) const {
  int steps = 0;
  for (size_t i = 0; i < stage; ++i) steps += stages[i].schedule.denoising_steps();
  return steps;
}

int Picture::total_steps() const { return request->steps_before(request->stages.size()); }

Lane Picture::lane() const {
  return absl::HashOf(stage().model, request->latent_height, request->latent_width, request->rows);
}

}  // namespace latentd::pipeline
