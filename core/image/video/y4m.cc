#include "core/image/video/y4m.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "core/image/video/frame_rate.h"

namespace latentd::image {
namespace {

constexpr absl::string_view kFrame = "FRAME\n";

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

class Y4m : public VideoContainer {
 public:
  explicit Y4m(const VideoInfo& info)
      : luma_(size_t{1} * info.width * info.height),
        chroma_(size_t{1} * ((info.width + 1) / 2) * ((info.height + 1) / 2)) {
    const FrameRate rate = FrameRateOf(info.fps);
    header_ = absl::StrCat("YUV4MPEG2 W", info.width, " H", info.height, " F", rate.frames, ":",
                           rate.seconds, " Ip A1:1 C420jpeg XCOLORRANGE=LIMITED\n");
  }

  bool IsFinalAsAdded() const override { return true; }
  void Begin(std::string& file) const override { file = header_; }

  absl::StatusOr<std::string> Encode(const Image& frame) const override {
    std::string bytes(FrameBytes(), '\0');
    std::copy(kFrame.begin(), kFrame.end(), bytes.begin());
    char* luma = bytes.data() + kFrame.size();
    for (size_t i = 0; i < frame.rgb.size(); i += 3) {
      *luma++ = static_cast<char>(
          Value(kLuma, {frame.rgb[i], frame.rgb[i + 1], frame.rgb[i + 2]}, /*shift=*/0));
    }
    char* blue = luma;
    char* red = blue + chroma_;
    for (int y = 0; y < frame.height; y += 2) {
      for (int x = 0; x < frame.width; x += 2) {
        const std::array<int, 3> sum = SumOfFour(frame, x, y);
        *blue++ = static_cast<char>(Value(kBlue, sum, /*shift=*/2));
        *red++ = static_cast<char>(Value(kRed, sum, /*shift=*/2));
      }
    }
    return bytes;
  }

  void Append(int /*number*/, absl::string_view encoded, std::string& file) const override {
    file.append(encoded.data(), encoded.size());
  }

  void End(std::string& /*file*/) const override {}

 private:
  size_t FrameBytes() const { return kFrame.size() + luma_ + 2 * chroma_; }

  const size_t luma_, chroma_;  // bytes of a plane
  std::string header_;
};

}  // namespace

std::unique_ptr<VideoContainer> MakeY4m(const VideoInfo& info) {
  return std::make_unique<Y4m>(info);
}

}  // namespace latentd::image
