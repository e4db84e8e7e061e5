#include "core/image/pixels/similarity.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"

namespace latentd::image {
namespace {

constexpr int kEdge = 5;  // pixels of a window on each side of its middle
constexpr int kWindow = kLeastSimilaritySide;
static_assert(kWindow == 2 * kEdge + 1);
constexpr double kSigma = 1.5;
constexpr double kC1 = (0.01 * 255) * (0.01 * 255);
constexpr double kC2 = (0.03 * 255) * (0.03 * 255);

// A number for each pixel: rows from the top.
struct Plane {
  int width = 0;
  int height = 0;
  std::vector<double> values;
};

std::array<double, kWindow> GaussianWeights() {
  std::array<double, kWindow> weights{};
  double sum = 0;
  for (int i = 0; i < kWindow; ++i) {
    const double distance = (i - kEdge) / kSigma;
    sum += weights[i] = std::exp(-0.5 * distance * distance);
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

// The weighted mean of every whole window along the rows. Rows come out as columns, so that a
// second time takes it along the columns and turns the plane back.
Plane TurnedRowMeans(const Plane& plane) {
  static const std::array<double, kWindow> kWeights = GaussianWeights();
  Plane means{.width = plane.height, .height = plane.width - kWindow + 1, .values = {}};
  means.values.reserve(static_cast<size_t>(means.width) * means.height);
  for (int x = 0; x < means.height; ++x) {
    for (int y = 0; y < means.width; ++y) {
      const double* window = plane.values.data() + static_cast<size_t>(y) * plane.width + x;
      double mean = 0;
      for (int i = 0; i < kWindow; ++i) mean += kWeights[i] * window[i];
      means.values.push_back(mean);
    }
  }
  return means;
}

std::vector<double> WindowMeans(const Plane& plane) {
  return TurnedRowMeans(TurnedRowMeans(plane)).values;
}

Plane Channel(const Image& image, size_t channel) {
  Plane plane{.width = image.width, .height = image.height, .values = {}};
  plane.values.reserve(image.rgb.size() / 3);
  for (size_t i = channel; i < image.rgb.size(); i += 3) plane.values.push_back(image.rgb[i]);
  return plane;
}

Plane Product(const Plane& a, const Plane& b) {
  Plane product = a;
  for (size_t i = 0; i < product.values.size(); ++i) product.values[i] *= b.values[i];
  return product;
}

double OfPlanes(const Plane& a, const Plane& b) {
  const std::vector<double> means_a = WindowMeans(a);
  const std::vector<double> means_b = WindowMeans(b);
  const std::vector<double> squares_a = WindowMeans(Product(a, a));
  const std::vector<double> squares_b = WindowMeans(Product(b, b));
  const std::vector<double> products = WindowMeans(Product(a, b));
  double sum = 0;
  for (size_t i = 0; i < means_a.size(); ++i) {
    const double square_a = means_a[i] * means_a[i];
    const double square_b = means_b[i] * means_b[i];
    const double product = means_a[i] * means_b[i];
    const double variances = squares_a[i] - square_a + squares_b[i] - square_b;
    const double covariance = products[i] - product;
    sum += (2 * product + kC1) / (square_a + square_b + kC1) * (2 * covariance + kC2) /
           (variances + kC2);
  }
  return sum / static_cast<double>(means_a.size());
}

absl::Status CheckSameSize(const Image& a, const Image& b) {
  if (a.width == b.width && a.height == b.height) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a picture of ", b.width, " x ", b.height,
                                                 " instead of ", a.width, " x ", a.height));
}

}  // namespace

absl::StatusOr<double> StructuralSimilarity(const Image& a, const Image& b) {
  RETURN_IF_ERROR(CheckSameSize(a, b));
  if (a.width < kWindow || a.height < kWindow) {
    return absl::InvalidArgumentError(absl::StrCat("a picture of ", a.width, " x ", a.height,
                                                   " has no window of ", kWindow, " pixels"));
  }
  double sum = 0;
  for (size_t channel = 0; channel < 3; ++channel) {
    sum += OfPlanes(Channel(a, channel), Channel(b, channel));
  }
  return sum / 3;
}

absl::StatusOr<double> PeakSignalToNoise(const Image& a, const Image& b) {
  RETURN_IF_ERROR(CheckSameSize(a, b));
  double squares = 0;
  for (size_t i = 0; i < a.rgb.size(); ++i) {
    const double difference = a.rgb[i] - b.rgb[i];
    squares += difference * difference;
  }
  if (squares == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(255.0 * 255.0 * static_cast<double>(a.rgb.size()) / squares);
}

}  // namespace latentd::image
