#include "core/image/pixels/resize.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/base/errors/status_macros.h"

namespace latentd::image {
namespace {

// Pillow computes in fixed point: weights have this many fractional bits, so that weights and
// pixels, 8 bits, and the weights' overshoot, 2 bits, fit into 32.
constexpr int kPrecisionBits = 32 - 8 - 2;
constexpr double kLanczosSupport = 3.0;
constexpr double kBicubicSupport = 2.0;

double Sinc(double x) {
  if (x == 0) return 1;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double Lanczos(double x) {
  if (x < -kLanczosSupport || x >= kLanczosSupport) return 0;
  return Sinc(x) * Sinc(x / kLanczosSupport);
}

// The cubic of Keys.
double Bicubic(double x) {
  constexpr double kSlope = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kSlope + 2) * x - (kSlope + 3)) * x * x + 1;
  if (x < kBicubicSupport) return (((x - 5) * x + 8) * x - 4) * kSlope;
  return 0;
}

// A weight by the distance from the middle, and how far from it that is not 0.
struct Filter {
  double (*weight)(double);
  double support;
};

// The input pixels of one output pixel, with their weights.
struct Tap {
  int first = 0;
  std::vector<int32_t> weights;
};

int32_t ToFixed(double weight) {
  const double scaled = weight * (1 << kPrecisionBits);
  return static_cast<int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

Tap MakeTap(const Filter& filter, int position, int input_size, double scale) {
  // Going down, the filter is as much wider as there are more input pixels.
  const double filter_scale = std::max(scale, 1.0);
  const double support = filter.support * filter_scale;
  const double center = (position + 0.5) * scale;
  const int first = std::max(0, static_cast<int>(center - support + 0.5));
  const int end = std::min(input_size, static_cast<int>(center + support + 0.5));
  // The reciprocal first, as Pillow does: a division rounds differently.
  const double reciprocal = 1.0 / filter_scale;
  std::vector<double> weights(end - first);
  double sum = 0;
  for (int i = 0; i < end - first; ++i) {
    weights[i] = filter.weight((i + first - center + 0.5) * reciprocal);
    sum += weights[i];
  }
  Tap tap{first, {}};
  for (const double weight : weights) tap.weights.push_back(ToFixed(sum == 0 ? 0 : weight / sum));
  return tap;
}

std::vector<Tap> MakeTaps(const Filter& filter, int input_size, int output_size) {
  const double scale = static_cast<double>(input_size) / output_size;
  std::vector<Tap> taps(output_size);
  for (int i = 0; i < output_size; ++i) taps[i] = MakeTap(filter, i, input_size, scale);
  return taps;
}

uint8_t ToByte(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kPrecisionBits, 0, 255));
}

// One colour of one output pixel; `input` is the first pixel's, the next lies `stride` bytes on.
uint8_t Apply(const Tap& tap, const uint8_t* input, size_t stride) {
  int32_t sum = 1 << (kPrecisionBits - 1);
  input += tap.first * stride;
  for (const int32_t weight : tap.weights) {
    sum += *input * weight;
    input += stride;
  }
  return ToByte(sum);
}

// Gives each row another width.
Image Rows(const Filter& filter, const Image& image, int width) {
  if (width == image.width) return image;
  const std::vector<Tap> taps = MakeTaps(filter, image.width, width);
  Image resized{width, image.height, {}};
  resized.rgb.reserve(size_t{3} * width * image.height);
  for (int y = 0; y < image.height; ++y) {
    const uint8_t* row = image.rgb.data() + size_t{3} * image.width * y;
    for (const Tap& tap : taps) {
      for (int c = 0; c < 3; ++c) resized.rgb.push_back(Apply(tap, row + c, 3));
    }
  }
  return resized;
}

// Gives each column another height.
Image Columns(const Filter& filter, const Image& image, int height) {
  if (height == image.height) return image;
  const std::vector<Tap> taps = MakeTaps(filter, image.height, height);
  const size_t row_bytes = size_t{3} * image.width;
  Image resized{image.width, height, {}};
  resized.rgb.resize(row_bytes * height);
  uint8_t* output = resized.rgb.data();
  // Whole rows at a time: a column at a time would touch another cache line for every pixel.
  std::vector<int32_t> sums(row_bytes);
  for (const Tap& tap : taps) {
    std::fill(sums.begin(), sums.end(), 1 << (kPrecisionBits - 1));
    const uint8_t* row = image.rgb.data() + row_bytes * tap.first;
    for (const int32_t weight : tap.weights) {
      for (size_t i = 0; i < row_bytes; ++i) sums[i] += row[i] * weight;
      row += row_bytes;
    }
    output = std::transform(sums.begin(), sums.end(), output, ToByte);
  }
  return resized;
}

// True if Pillow, since version 13, starts with the columns: when the height shrinks by much more
// than the width.
bool ColumnsFirst(const Image& image, int width, int height) {
  return height < image.height && image.height - height > 2 * (image.width - width);
}

absl::StatusOr<Image> ResizeBy(const Filter& filter, const Image& image, int width, int height) {
  RETURN_IF_ERROR(CheckImage(image));
  RETURN_IF_ERROR(CheckSize(image.width, image.height));
  RETURN_IF_ERROR(CheckSize(width, height));
  // Both passes round to bytes, so that one that changes nothing has to be left out and the order
  // shows.
  if (ColumnsFirst(image, width, height)) {
    return Rows(filter, Columns(filter, image, height), width);
  }
  return Columns(filter, Rows(filter, image, width), height);
}

}  // namespace

absl::StatusOr<Image> ResizeLanczos(const Image& image, int width, int height) {
  return ResizeBy({Lanczos, kLanczosSupport}, image, width, height);
}

absl::StatusOr<Image> ResizeBicubic(const Image& image, int width, int height) {
  return ResizeBy({Bicubic, kBicubicSupport}, image, width, height);
}

}  // namespace latentd::image
