#include "core/pipeline/state_bytes.h"

#include <algorithm>

#include "core/pipeline/step_lane.h"

namespace latentd::pipeline {
namespace {

constexpr int64_t kFloat = sizeof(float);

// What its encoders make of one row's prompts, until the request part has run: the first steps may
// be enqueued by then.
int64_t TextBytes(const SdxlModel& model) {
  const ConditioningSizes& sizes = model.conditioning();
  return (sizes.tokens * sizes.joined_features() + sizes.pooled) * kFloat;
}

}  // namespace

int64_t StateBytes(const std::vector<const SdxlModel*>& models, const StepShape& shape, Size size) {
  const int64_t channels = models.front()->latent_channels();
  const int64_t latents = channels * shape.height * shape.width;
  const int64_t pixels = int64_t{3} * size.width * size.height;
  int64_t kept = 2 * latents;  // the old ones until a stage has left its own
  kept += static_cast<int64_t>(models.size() - 1) * latents;  // handed over
  kept += 2 * latents;                                        // the encoded image, a distribution
  int64_t text = 0, request_bytes = 0, conditioning = 0;
  for (const SdxlModel* model : models) {
    text = std::max(text, TextBytes(*model));
    request_bytes = std::max(request_bytes, model->graphs().request_bytes());
    conditioning += shape.rows * model->graphs().request_bytes();
  }
  const int64_t steps = StepLane::Bytes(shape, channels, request_bytes);
  // As the graph gives them, on the host, and the picture's centre.
  const int64_t decode = 3 * pixels;
  return shape.rows * text + conditioning + kept * kFloat + std::max(steps, decode);
}

}  // namespace latentd::pipeline
