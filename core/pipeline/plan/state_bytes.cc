#include "core/pipeline/plan/state_bytes.h"

#include <algorithm>

#include "core/pipeline/lanes/step_lane.h"

namespace latentd::pipeline {
namespace {

using Models = std::vector<const LoadedModel*>;

constexpr int64_t kFloatBytes = sizeof(float);

int64_t LatentsBytes(const Models& models, const StepShape& shape) {
  return models.front()->latent_channels() * shape.height * shape.width * kFloatBytes;
}

int64_t TextBytes(const Models& models) {
  int64_t bytes = 0;
  for (const LoadedModel* model : models) bytes = std::max(bytes, model->graphs().text_bytes());
  return bytes;
}

// Bytes of one row: results of its encoders for its prompts, until the request part has run (the
// first steps may be enqueued by then), and that part's results.
int64_t ConditioningBytes(const Models& models, int chunks) {
  int64_t conditioning = 0;
  for (const LoadedModel* model : models) conditioning += model->graphs().request_bytes();
  return chunks * (TextBytes(models) + conditioning);
}

// The old latents until a stage has left its own, and what one model hands over to the next.
int64_t PictureBytes(const Models& models, const StepShape& shape) {
  return static_cast<int64_t>(models.size() + 1) * LatentsBytes(models, shape);
}

// The encoded image, a distribution.
int64_t ImageBytes(const Models& models, const StepShape& shape) {
  return 2 * LatentsBytes(models, shape);
}

// As the graph gives them, on the host, and the picture's centre.
int64_t DecodeBytes(Size size) { return int64_t{3} * 3 * size.width * size.height; }

int64_t LaneBytes(const Models& models, const StepShape& shape) {
  int64_t bytes = 0;
  for (const LoadedModel* model : models) {
    const int64_t elements = model->latent_channels() * shape.height * shape.width;
    const ModelGraphs& graphs = model->graphs();
    const StepPaths& paths = graphs.step_paths();
    StepShape most = shape;
    most.ranks = paths.ranks;
    const std::vector<RowPort> ports = graphs.StepPorts(elements, most);
    bytes = std::max(bytes, StepLane::Bytes(ports, shape.rows) + paths.pool_bytes());
  }
  return bytes;
}

// Inputs of one run of a masked text graph, at most: the mask, and vectors of words.
int64_t MaskedRunBytes(const PlannedStage& stage) {
  int64_t bytes = 0;
  for (const families::TextEncoder& encoder : stage.model->text_encoders()) {
    const int64_t tokens = encoder.tokenizer->max_length();
    const int64_t vectors = stage.takes_vectors() ? encoder.config.hidden_size : 0;
    bytes = std::max(bytes, tokens * (tokens + vectors) * kFloatBytes);
  }
  return bytes;
}

}  // namespace

int64_t RequestBytes(const Models& models, const StepShape& shape, Size size, int pictures) {
  return shape.rows * ConditioningBytes(models, shape.chunks) +
         pictures * PictureBytes(models, shape) + ImageBytes(models, shape) + DecodeBytes(size);
}

int64_t EmphasisBytes(const Models& models, const StepShape& shape) {
  return shape.rows * shape.chunks * TextBytes(models);
}

int64_t BlendBytes(const Models& models, const StepShape& shape, const Plan& plan) {
  if (plan.blends() == 0) return 0;
  int64_t inputs = 0;
  for (const PlannedStage& stage : plan.stages) inputs += stage.blends() * MaskedRunBytes(stage);
  return shape.rows * TextBytes(models) + 2 * inputs;
}

// The mask in pixels and in latents; two draws of noise, or the encoded masked image and its
// latents; and around each of two steps that may be enqueued the latents before and after.
int64_t MaskBytes(const Models& models, const StepShape& shape, Size size, bool differential) {
  const int64_t of_latents = shape.height * shape.width * kFloatBytes;
  // A differential one is kept, and made anew for each of these steps.
  const int64_t of_mask = int64_t{size.width} * size.height + 4 * of_latents;
  // From denoising_start on it begins with two images, each drawn and noised in one unit.
  return of_mask + (differential ? 13 : 7) * LatentsBytes(models, shape);
}

// The image, and how much of each pixel is kept.
int64_t OverlayBytes(const Plan& plan) {
  const PictureSpec& spec = plan.spec;
  const bool overlays = spec.padding_mask_crop.has_value() || spec.preserve_unmasked;
  const Size size = plan.picture_size();
  return overlays ? int64_t{4} * size.width * size.height : 0;
}

// Two steps may be enqueued. For a tiny VAE one waits more, whose sum and pixels are on the device
// and on the host.
int64_t PreviewBytes(const Models& models, const StepShape& shape, Size size) {
  const int64_t latents = LatentsBytes(models, shape);
  const int64_t terms = static_cast<int64_t>(schedulers::kPredictionTerms) * latents;
  const bool has_tiny_vae = std::any_of(models.begin(), models.end(), [](const LoadedModel* model) {
    return model->graphs().has_tiny_vae();
  });
  if (!has_tiny_vae) return 2 * terms;
  return 3 * terms + 2 * latents + int64_t{2} * 3 * size.width * size.height;
}

int64_t StateBytes(const Models& models, const StepShape& shape, Size size) {
  const int64_t of_row = ConditioningBytes(models, shape.chunks) + PictureBytes(models, shape) +
                         ImageBytes(models, shape);
  return LaneBytes(models, shape) + shape.rows * of_row + DecodeBytes(size);
}

}  // namespace latentd::pipeline
