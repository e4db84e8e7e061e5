#include "core/pipeline/state_bytes.h"

#include <algorithm>

#include "core/pipeline/step_lane.h"

namespace latentd::pipeline {
namespace {

constexpr int64_t kFloat = sizeof(float);

// What its encoders and the request part made of the prompts.
int64_t ConditioningBytes(const SdxlModel& model, int rows) {
  const ConditioningSizes& sizes = model.conditioning();
  const int64_t states = (sizes.tokens * sizes.joined_features() + sizes.pooled) * kFloat;
  return rows * (states + model.graphs().request_bytes());
}

}  // namespace

int64_t StateBytes(const std::vector<const SdxlModel*>& models, const StepShape& shape, Size size) {
  const int64_t channels = models.front()->latent_channels();
  const int64_t latents = channels * shape.height * shape.width;
  const int64_t pixels = int64_t{3} * size.width * size.height;
  int64_t kept = 2 * latents, conditioning = 0;  // the old ones until a stage has left its own
  for (const SdxlModel* model : models) conditioning += ConditioningBytes(*model, shape.rows);
  kept += static_cast<int64_t>(models.size() - 1) * latents;  // handed over
  kept += 2 * latents;                                        // the encoded image, a distribution
  int64_t request_bytes = 0;
  for (const SdxlModel* model : models) {
    request_bytes = std::max(request_bytes, model->graphs().request_bytes());
  }
  const int64_t steps = StepLane::Bytes(shape, channels, request_bytes);
  // As the graph gives them, on the host, and the picture's centre.
  const int64_t decode = 3 * pixels;
  return conditioning + kept * kFloat + std::max(steps, decode);
}

}  // namespace latentd::pipeline
