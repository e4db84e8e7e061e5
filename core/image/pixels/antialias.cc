#include "core/image/pixels/antialias.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"

namespace latentd::image {
namespace {

// Pixels of one line that make one pixel of the result, with their weights.
struct BlurredTap {
  int first = 0;
  std::vector<double> weights;
};

constexpr int kCubicTaps = 4;

// A Gaussian around its middle element.
std::vector<double> GaussianFor(double factor) {
  const double sigma = std::max((factor - 1) / 2, 0.001);
  int size = static_cast<int>(std::max(4 * sigma, 3.0));
  if (size % 2 == 0) ++size;
  // torch has it as a float32.
  const double rounded = static_cast<float>(sigma);
  std::vector<double> weights;
  double sum = 0;
  for (int i = 0; i < size; ++i) {
    const double x = i - size / 2;
    weights.push_back(std::exp(-x * x / (2 * rounded * rounded)));
    sum += weights.back();
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

// Weights of the pixels at floor(x) - 1 to floor(x) + 2, for the fraction `t` of x.
std::array<double, kCubicTaps> CubicWeights(double t) {
  constexpr double kA = -0.75;
  const auto near = [](double x) { return ((kA + 2) * x - (kA + 3)) * x * x + 1; };
  const auto far = [](double x) { return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

// REQUIRES: i is less than a line's length beyond its ends.
int Reflected(int i, int size) {
  if (i < 0) return -i;
  return i < size ? i : 2 * (size - 1) - i;
}

BlurredTap Compressed(const std::vector<double>& dense) {
  const auto is_weight = [](double weight) { return weight != 0; };
  const auto first = std::find_if(dense.begin(), dense.end(), is_weight);
  const auto last = std::find_if(dense.rbegin(), dense.rend(), is_weight);
  return {static_cast<int>(first - dense.begin()), {first, last.base()}};
}

// All of a direction: what the blur leaves of the pixels that interpolation reads.
std::vector<BlurredTap> TapsOf(int from, int to) {
  const std::vector<double> blur = GaussianFor(static_cast<double>(from) / to);
  const int reach = static_cast<int>(blur.size()) / 2;
  // Positions are float32's in torch.
  const float scale = static_cast<float>(from - 1) / static_cast<float>(to - 1);
  std::vector<BlurredTap> taps;
  for (int i = 0; i < to; ++i) {
    const float position = scale * static_cast<float>(i);
    const int base = static_cast<int>(std::floor(position));
    const auto cubic = CubicWeights(position - static_cast<float>(base));
    std::vector<double> dense(static_cast<size_t>(from));
    for (int tap = 0; tap < kCubicTaps; ++tap) {
      const int center = std::clamp(base - 1 + tap, 0, from - 1);
      for (int j = -reach; j <= reach; ++j) {
        dense[static_cast<size_t>(Reflected(center + j, from))] +=
            cubic[static_cast<size_t>(tap)] * blur[static_cast<size_t>(j + reach)];
      }
    }
    taps.push_back(Compressed(dense));
  }
  return taps;
}

double SumOf(const BlurredTap& tap, const float* line, int stride) {
  double sum = 0;
  const float* next = line + static_cast<size_t>(tap.first) * static_cast<size_t>(stride);
  for (const double weight : tap.weights) {
    sum += weight * static_cast<double>(*next);
    next += stride;
  }
  return sum;
}

// One colour of the image in [-1, 1].
std::vector<float> PlaneOf(const Image& image, size_t channel) {
  std::vector<float> plane;
  plane.reserve(image.rgb.size() / 3);
  for (size_t i = channel; i < image.rgb.size(); i += 3) {
    plane.push_back(static_cast<float>(image.rgb[i]) / 255.0f * 2.0f - 1.0f);
  }
  return plane;
}

absl::Status CheckSides(int width, int height, int largest) {
  if (std::min(width, height) >= 2 && std::max(width, height) <= largest) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("an image of ", width, " x ", height,
                                                 "; supported for the image encoder: from 2 to ",
                                                 largest, " pixels a side"));
}

}  // namespace

absl::StatusOr<std::vector<float>> ResizeAntialiased(const Image& image, int width, int height) {
  RETURN_IF_ERROR(CheckImage(image));
  RETURN_IF_ERROR(CheckSides(image.width, image.height, kMaxSide));
  RETURN_IF_ERROR(CheckSides(width, height, kMaxSide));
  const std::vector<BlurredTap> across = TapsOf(image.width, width);
  const std::vector<BlurredTap> down = TapsOf(image.height, height);
  std::vector<float> result;
  for (size_t channel = 0; channel < 3; ++channel) {
    const std::vector<float> plane = PlaneOf(image, channel);
    std::vector<float> narrow;
    for (int y = 0; y < image.height; ++y) {
      const float* line = plane.data() + static_cast<size_t>(y) * static_cast<size_t>(image.width);
      for (const BlurredTap& tap : across)
        narrow.push_back(static_cast<float>(SumOf(tap, line, 1)));
    }
    for (const BlurredTap& tap : down) {
      for (int x = 0; x < width; ++x) {
        result.push_back(static_cast<float>(SumOf(tap, narrow.data() + x, width)));
      }
    }
  }
  return result;
}

}  // namespace latentd::image
