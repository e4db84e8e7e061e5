#include "core/pipeline/state_bytes.h"

#include <algorithm>

namespace latentd::pipeline {
namespace {

constexpr int64_t kFloat = sizeof(float);

// What its encoders and the request part made of the prompts.
int64_t ConditioningBytes(const SdxlModel& model, int rows) {
  const ConditioningSizes& sizes = model.conditioning();
  const int64_t states = (sizes.tokens * sizes.features + sizes.pooled) * kFloat;
  return rows * (states + model.graphs().request_bytes());
}

}  // namespace

int64_t StateBytes(const std::vector<const SdxlModel*>& models, const StepShape& shape, Size size) {
  const int64_t channels = models.front()->latent_channels();
  const int64_t latents = channels * shape.height * shape.width;
  const int64_t pixels = int64_t{3} * size.width * size.height;
  int64_t kept = latents, conditioning = 0, held_area = 0;
  for (const SdxlModel* model : models) {
    conditioning += ConditioningBytes(*model, shape.rows);
    held_area = std::max(held_area, model->TilesOf(shape.height, shape.width).HeldArea());
  }
  kept += static_cast<int64_t>(models.size() - 1) * latents;  // handed over
  kept += 2 * latents;                                        // the encoded image, a distribution
  const int64_t steps = StepElements(shape, channels) * kFloat;
  const int64_t tiles = held_area * pixels / (int64_t{shape.height} * shape.width);
  const int64_t decode = pixels * (kFloat + 1) + tiles * kFloat;
  return conditioning + kept * kFloat + std::max(steps, decode);
}

}  // namespace latentd::pipeline
