#include "core/pipeline/preview.h"

#include <cmath>
#include <utility>

#include "core/base/status_macros.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;

// Of PredictionWeights: x after the step, its state before it, its noise.
constexpr size_t kAfter = 0, kBefore = 1, kNoise = kBefore + schedulers::kStateRows;

const schedulers::StepCoefficients& NextStep(const Picture& picture) {
  return picture.stage().schedule.steps[picture.evaluation];
}

absl::StatusOr<Buffer> AddTerm(const Picture& picture, float weight, Prediction& prediction) {
  device::Device& device = picture.place->lane()->device();
  ASSIGN_OR_RETURN(Buffer latents, device.Allocate(device::DType::kF32, picture.latents.shape(),
                                                   device::Place::kPinned));
  prediction.terms.push_back({latents, weight});
  return latents;
}

std::vector<float> SumOf(const Prediction& prediction) {
  std::vector<float> sum(static_cast<size_t>(prediction.terms.front().latents.elements()));
  for (const Prediction::Term& term : prediction.terms) {
    const absl::Span<const float> values = term.latents.as<float>();
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += term.weight * values[i];
  }
  return sum;
}

// As image/pixels.h says; of what is no number 0.
uint8_t ToByte(float value) {
  const float unit = value / 2 + 0.5f;
  if (!(unit > 0)) return 0;
  return unit >= 1 ? 255 : static_cast<uint8_t>(std::nearbyint(unit * 255));
}

}  // namespace

size_t Prediction::bytes() const {
  size_t bytes = 0;
  for (const Term& term : terms) bytes += term.latents.bytes();
  return bytes;
}

int PreviewDue(const Picture& picture) {
  const std::optional<int>& every = picture.request->spec.previews_every;
  if (!every) return 0;
  const auto& steps = picture.stage().schedule.steps;
  const size_t after = picture.evaluation + 1;
  const int index = steps[picture.evaluation].denoising_index;
  if (after < steps.size() && steps[after].denoising_index == index) return 0;
  const int step = picture.request->steps_before(picture.stage_index) + index + 1;
  return step % *every == 0 ? step : 0;
}

absl::Status ReadStart(const Picture& picture, device::Stream& stream, Prediction& prediction) {
  const StepLane& lane = *picture.place->lane();
  const auto weights = schedulers::PredictionWeights(NextStep(picture));
  for (int i = 0; i < schedulers::kStateRows; ++i) {
    if (weights[kBefore + i] == 0) continue;
    ASSIGN_OR_RETURN(const Buffer state, AddTerm(picture, weights[kBefore + i], prediction));
    RETURN_IF_ERROR(lane.ReadState(*picture.place, i, state, stream));
  }
  if (weights[kNoise] == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Buffer noise, AddTerm(picture, weights[kNoise], prediction));
  return lane.ReadNoise(*picture.place, noise, stream);
}

absl::Status ReadEnd(const Picture& picture, device::Stream& stream, Prediction& prediction) {
  const auto weights = schedulers::PredictionWeights(NextStep(picture));
  ASSIGN_OR_RETURN(const Buffer x, AddTerm(picture, weights[kAfter], prediction));
  return picture.place->lane()->ReadState(*picture.place, /*index=*/0, x, stream);
}

image::Image DrawPreview(const Prediction& prediction, const LatentColors& colors, Size size) {
  const device::Shape& shape = prediction.terms.front().latents.shape();
  const auto height = static_cast<int>(shape[2]), width = static_cast<int>(shape[3]);
  const int top = (height - size.height) / 2, left = (width - size.width) / 2;
  const std::vector<float> latents = SumOf(prediction);
  image::Image drawn{size.width, size.height, {}};
  drawn.rgb.reserve(static_cast<size_t>(size.width) * size.height * 3);
  for (int y = top; y < top + size.height; ++y) {
    for (int x = left; x < left + size.width; ++x) {
      Color color = colors.bias;
      for (size_t c = 0; c < colors.factors.size(); ++c) {
        const float latent = latents[(c * height + y) * width + x];
        for (size_t i = 0; i < color.size(); ++i) color[i] += latent * colors.factors[c][i];
      }
      for (float value : color) drawn.rgb.push_back(ToByte(value));
    }
  }
  return drawn;
}

}  // namespace latentd::pipeline
