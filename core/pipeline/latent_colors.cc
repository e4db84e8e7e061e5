#include "core/pipeline/latent_colors.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace latentd::pipeline {
namespace {

using models::AutoencoderKlConfig;

constexpr double kSdxlScaling = 0.13025;
constexpr int64_t kSdxlChannels = 4;

// So many in each direction, where latents are enough.
constexpr int64_t kSquares = 8;
constexpr int64_t kSmallestSquare = 2;
// Uniform random numbers up to there have the deviation that latents have.
constexpr float kLargestSample = 1.7320508f;
// Keeps the equations solvable, of so many latents' worth.
constexpr double kRidge = 1e-3;

LatentColors SdxlColors() {
  return {.factors = {{0.3651f, 0.4232f, 0.4341f},
                      {-0.2533f, -0.0042f, 0.1068f},
                      {0.1076f, 0.1111f, -0.0362f},
                      {-0.3165f, -0.2492f, -0.2188f}},
          .bias = {0.1084f, -0.0175f, -0.0011f}};
}

// Least squares: the sums of one equation for each latent, of its channels and 1.
class Equations {
 public:
  explicit Equations(size_t unknowns) : size_(unknowns), left_(unknowns * unknowns), right_(size_) {
    for (size_t i = 0; i < size_; ++i) left_[i * size_ + i] = kRidge;
  }

  void Add(const std::vector<double>& known, const std::array<double, 3>& color) {
    for (size_t i = 0; i < size_; ++i) {
      for (size_t j = 0; j < size_; ++j) left_[i * size_ + j] += known[i] * known[j];
      for (size_t c = 0; c < color.size(); ++c) right_[i][c] += known[i] * color[c];
    }
  }

  // By Gauss and Jordan. What is on the diagonal is positive, so that no rows need to be swapped.
  std::vector<std::array<double, 3>> Solve() && {
    for (size_t pivot = 0; pivot < size_; ++pivot) {
      for (size_t row = 0; row < size_; ++row) {
        if (row != pivot) Subtract(pivot, row);
      }
    }
    for (size_t i = 0; i < size_; ++i) {
      for (double& value : right_[i]) value /= left_[i * size_ + i];
    }
    return std::move(right_);
  }

 private:
  void Subtract(size_t pivot, size_t row) {
    const double share = left_[row * size_ + pivot] / left_[pivot * size_ + pivot];
    for (size_t j = 0; j < size_; ++j) left_[row * size_ + j] -= share * left_[pivot * size_ + j];
    for (size_t c = 0; c < 3; ++c) right_[row][c] -= share * right_[pivot][c];
  }

  const size_t size_;
  std::vector<double> left_;
  std::vector<std::array<double, 3>> right_;
};

// The mean of the pixels that the latent at (x, y) stands for.
std::array<double, 3> MeanColor(absl::Span<const uint8_t> pixels, int64_t stride, int64_t scale,
                                int64_t x, int64_t y) {
  std::array<double, 3> sum{};
  for (int64_t row = y * scale; row < (y + 1) * scale; ++row) {
    for (int64_t column = x * scale; column < (x + 1) * scale; ++column) {
      for (size_t c = 0; c < 3; ++c) sum[c] += pixels[(row * stride + column) * 3 + c];
    }
  }
  for (double& value : sum) value = value / static_cast<double>(scale * scale) / 127.5 - 1;
  return sum;
}

Color ToFloat(const std::array<double, 3>& color) {
  return {static_cast<float>(color[0]), static_cast<float>(color[1]), static_cast<float>(color[2])};
}

}  // namespace

std::optional<LatentColors> KnownColors(const VaeConfig& vae) {
  const auto* kl = std::get_if<AutoencoderKlConfig>(&vae);
  if (kl == nullptr || kl->latent_channels != kSdxlChannels) return std::nullopt;
  const bool plain = !kl->shift_factor && !kl->latents_mean && !kl->latents_std;
  if (!plain || std::abs(kl->scaling_factor - kSdxlScaling) > 1e-6) return std::nullopt;
  return SdxlColors();
}

device::Buffer ColorSamples(const device::Shape& shape) {
  const int64_t channels = shape[1], height = shape[2], width = shape[3];
  const int64_t side = std::max(kSmallestSquare, std::min(height, width) / kSquares);
  const int64_t across = (width + side - 1) / side, down = (height + side - 1) / side;
  std::mt19937 random;
  std::vector<float> squares(static_cast<size_t>(channels * down * across));
  for (float& value : squares) {
    value = (static_cast<float>(random()) / 0x1p31f - 1) * kLargestSample;
  }
  device::Buffer samples = device::Buffer::Allocate(device::DType::kF32, shape);
  auto next = samples.as<float>().begin();
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        *next++ = squares[(c * down + y / side) * across + x / side];
      }
    }
  }
  return samples;
}

LatentColors FitColors(const device::ConstBuffer& latents, const device::ConstBuffer& pixels) {
  const int64_t channels = latents.shape()[1], height = latents.shape()[2];
  const int64_t width = latents.shape()[3], stride = pixels.shape()[2];
  const auto values = latents.as<float>();
  const auto bytes = pixels.as<uint8_t>();
  Equations equations(static_cast<size_t>(channels) + 1);
  std::vector<double> known(static_cast<size_t>(channels) + 1, 1);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c) known[c] = values[(c * height + y) * width + x];
      equations.Add(known, MeanColor(bytes, stride, stride / width, x, y));
    }
  }
  const auto solved = std::move(equations).Solve();
  LatentColors colors;
  for (int64_t c = 0; c < channels; ++c) colors.factors.push_back(ToFloat(solved[c]));
  colors.bias = ToFloat(solved.back());
  return colors;
}

}  // namespace latentd::pipeline
