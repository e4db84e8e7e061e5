#include "core/pipeline/picture/preview.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors/status_macros.h"
#include "core/pipeline/picture/pixels.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;

// Rows of PredictionWeights: x after the step, its state before it, its noise.
constexpr size_t kAfterTerm = 0, kBeforeTerm = 1, kNoiseTerm = kBeforeTerm + schedulers::kStateRows;

const schedulers::StepCoefficients& NextStep(const Picture& picture) {
  return picture.stage().schedule().steps[picture.evaluation];
}

absl::StatusOr<Buffer> AddTerm(const Picture& picture, float weight, Prediction& prediction) {
  device::Device& device = picture.place->lane()->device();
  ASSIGN_OR_RETURN(Buffer latents, device.Allocate(device::DType::kF32, picture.latents.shape(),
                                                   device::Place::kPinned));
  prediction.terms.push_back({latents, weight});
  return latents;
}

// As image/pixels.h says; of what is no number 0.
uint8_t ToByte(float value) {
  const float unit = value / 2 + 0.5f;
  if (!(unit > 0)) return 0;
  return unit >= 1 ? 255 : static_cast<uint8_t>(std::nearbyint(unit * 255));
}

// The middle of the latents of an image or a frame, each channel behind the other.
image::Image DrawFrame(absl::Span<const float> latents, LatentSize all, const LatentColors& colors,
                       Size size) {
  const auto height = static_cast<int>(all.height), width = static_cast<int>(all.width);
  const int top = (height - size.height) / 2, left = (width - size.width) / 2;
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

}  // namespace

size_t Prediction::bytes() const {
  size_t bytes = pixels.bytes();
  for (const Term& term : terms) bytes += term.latents.bytes();
  return bytes;
}

int PreviewDue(const Picture& picture) {
  const Request& request = *picture.request;
  const std::optional<int>& every = request.spec().previews_every;
  const bool is_drawn = request.preview != nullptr || request.colors;
  if (!every || !is_drawn) return 0;
  const auto& steps = picture.stage().schedule().steps;
  const size_t after = picture.evaluation + 1;
  const int index = steps[picture.evaluation].denoising_index;
  if (after < steps.size() && steps[after].denoising_index == index) return 0;
  const int step = picture.stage().planned.first_step + index + 1;
  if (request.preview != nullptr && step == picture.total_steps()) return 0;
  return step % *every == 0 ? step : 0;
}

int PreviewsAhead(const Picture& picture, size_t stage) {
  const Request& request = *picture.request;
  if (request.preview == nullptr) return 0;
  const PlannedStage& planned = request.plan->stages[stage];
  const auto& steps = planned.schedule.steps;
  const size_t next = stage == picture.stage_index ? picture.evaluation : 0;
  const int waiting = stage == picture.stage_index && picture.prediction.step > 0 ? 1 : 0;
  if (next >= steps.size()) return waiting;
  const int begin = planned.first_step + steps[next].denoising_index;
  const int end =
      std::min(planned.first_step + planned.schedule.denoising_steps(), picture.total_steps() - 1);
  const int every = *request.spec().previews_every;
  return waiting + std::max(end / every - begin / every, 0);
}

Buffer SumOf(const Prediction& prediction) {
  Buffer sum = Buffer::Allocate(device::DType::kF32, prediction.terms.front().latents.shape());
  const absl::Span<float> sums = sum.as<float>();
  for (const Prediction::Term& term : prediction.terms) {
    const absl::Span<const float> values = term.latents.as<float>();
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += term.weight * values[i];
  }
  return sum;
}

absl::Status ReadStart(const Picture& picture, device::Stream& stream, Prediction& prediction) {
  const StepLane& lane = *picture.place->lane();
  const auto weights = schedulers::PredictionWeights(NextStep(picture));
  for (int i = 0; i < schedulers::kStateRows; ++i) {
    if (weights[kBeforeTerm + i] == 0) continue;
    ASSIGN_OR_RETURN(const Buffer state, AddTerm(picture, weights[kBeforeTerm + i], prediction));
    RETURN_IF_ERROR(lane.ReadState(*picture.place, i, state, stream));
  }
  if (weights[kNoiseTerm] == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Buffer noise, AddTerm(picture, weights[kNoiseTerm], prediction));
  return lane.ReadNoise(*picture.place, noise, stream);
}

absl::Status ReadEnd(const Picture& picture, device::Stream& stream, Prediction& prediction) {
  const auto weights = schedulers::PredictionWeights(NextStep(picture));
  ASSIGN_OR_RETURN(const Buffer x, AddTerm(picture, weights[kAfterTerm], prediction));
  return picture.place->lane()->ReadState(*picture.place, /*index=*/0, x, stream);
}

std::vector<image::Image> DrawPreview(const Prediction& prediction, const LatentColors& colors,
                                      Size size) {
  const device::Shape& shape = prediction.terms.front().latents.shape();
  const LatentSize latents = {shape[2], shape[3]};
  const Buffer sum = SumOf(prediction);
  const size_t of_frame = colors.factors.size() * latents.height * latents.width;
  std::vector<image::Image> frames;
  for (absl::Span<const float> rest = sum.as<float>(); !rest.empty();
       rest.remove_prefix(of_frame)) {
    frames.push_back(DrawFrame(rest.first(of_frame), latents, colors, size));
  }
  return frames;
}

image::Image ShrinkPixels(const Buffer& pixels, Size size) {
  constexpr int kChannels = 3;
  const image::Image picture = CentreOf(pixels, size);
  const bool divides = size.width % kPreviewShrink == 0 && size.height % kPreviewShrink == 0;
  const int factor = divides ? kPreviewShrink : 1, area = factor * factor;
  const int width = size.width / factor, height = size.height / factor;
  std::vector<int> sums(static_cast<size_t>(width) * height * kChannels);
  auto next = picture.rgb.begin();
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      const size_t to = (static_cast<size_t>(y / factor) * width + x / factor) * kChannels;
      for (int c = 0; c < kChannels; ++c) sums[to + c] += *next++;
    }
  }
  image::Image small{width, height, {}};
  small.rgb.reserve(sums.size());
  for (int sum : sums) small.rgb.push_back(static_cast<uint8_t>((sum + area / 2) / area));
  return small;
}

}  // namespace latentd::pipeline
