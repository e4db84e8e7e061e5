#include "core/image/video/yuv.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace latentd::image {
namespace {

// A weighted sum of red, green and blue, in parts of 2^16, and what is added to it.
struct Channel {
  std::array<int, 3> weights;
  int offset;
};

// BT.601 from 0..255 to 16..235 and, of chroma, 16..240. Chroma's weights have the sum 0, so that
// grey is 128.
constexpr Channel kLuma{{16829, 33038, 6416}, 16}, kBlue{{-9714, -19070, 28784}, 128},
    kRed{{28784, -24103, -4681}, 128};

// The channel of the mean of 2^shift pixels, whose sums are `rgb`.
uint8_t Value(const Channel& channel, const std::array<int, 3>& rgb, int shift) {
  const int bits = 16 + shift;
  int sum = (channel.offset << bits) + (1 << (bits - 1));
  for (size_t i = 0; i < rgb.size(); ++i) sum += channel.weights[i] * rgb[i];
  return static_cast<uint8_t>(sum >> bits);
}

// Sums of four pixels, of which the last row and column stand for what would be behind them.
std::array<int, 3> SumOfFour(const Image& image, int left, int top) {
  std::array<int, 3> sum{};
  for (int y : {top, std::min(top + 1, image.height - 1)}) {
    for (int x : {left, std::min(left + 1, image.width - 1)}) {
      const uint8_t* pixel =
          image.rgb.data() + 3 * (size_t{static_cast<size_t>(y)} * image.width + x);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += pixel[i];
    }
  }
  return sum;
}

size_t LumaBytes(int width, int height) { return size_t{1} * width * height; }
size_t ChromaBytes(int width, int height) {
  return size_t{1} * ((width + 1) / 2) * ((height + 1) / 2);
}

}  // namespace

size_t YuvBytes(int width, int height) {
  return LumaBytes(width, height) + 2 * ChromaBytes(width, height);
}

void AppendYuv(const Image& frame, std::string& to) {
  const size_t begin = to.size();
  to.resize(begin + YuvBytes(frame.width, frame.height));
  char* luma = to.data() + begin;
  for (size_t i = 0; i < frame.rgb.size(); i += 3) {
    *luma++ = static_cast<char>(
        Value(kLuma, {frame.rgb[i], frame.rgb[i + 1], frame.rgb[i + 2]}, /*shift=*/0));
  }
  char* blue = luma;
  char* red = blue + ChromaBytes(frame.width, frame.height);
  for (int y = 0; y < frame.height; y += 2) {
    for (int x = 0; x < frame.width; x += 2) {
      const std::array<int, 3> sum = SumOfFour(frame, x, y);
      *blue++ = static_cast<char>(Value(kBlue, sum, /*shift=*/2));
      *red++ = static_cast<char>(Value(kRed, sum, /*shift=*/2));
    }
  }
}

}  // namespace latentd::image
