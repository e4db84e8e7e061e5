#include "core/image/video/apng.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "core/image/png/deflate.h"
#include "core/image/png/png_write.h"
#include "core/image/video/frame_rate.h"

namespace latentd::image {
namespace {

constexpr uint32_t kForEver = 0;

std::string SixteenBits(uint32_t value) { return PngNumber(value).substr(2); }

class Apng : public VideoContainer {
 public:
  explicit Apng(const VideoInfo& info) : info_(info), rate_(FrameRateOf(info.fps)) {}

  bool IsFinalAsAdded() const override { return true; }

  void Begin(std::string& file) const override {
    file = std::string(kPngSignature);
    AppendPngHeader(info_.width, info_.height, file);
    AppendPngChunk("acTL", absl::StrCat(PngNumber(info_.frames), PngNumber(kForEver)), file);
    AppendPngParameters(info_.parameters, file);
  }

  absl::StatusOr<std::string> Encode(const Image& frame) const override {
    const PngPixels pixels = CompressPng(frame, RunPartsHere);
    std::string stream;
    stream.reserve(ZlibStreamSize(pixels));
    AppendZlibStream(pixels, stream);
    return stream;
  }

  // Chunks of frames are numbered from 0 on: fcTL of the first one, whose pixels are those of the
  // still image, then fcTL and fdAT of each.
  void Append(int number, absl::string_view encoded, std::string& file) const override {
    if (number == 0) {
      AppendControl(0, file);
      AppendPngChunk("IDAT", encoded, file);
      return;
    }
    const uint32_t sequence = 2 * static_cast<uint32_t>(number) - 1;
    AppendControl(sequence, file);
    AppendPngChunk(
        "fdAT", 4 + encoded.size(),
        [&](std::string& to) { absl::StrAppend(&to, PngNumber(sequence + 1), encoded); }, file);
  }

  absl::Status End(std::string& file, BeforeFrame /*before_frame*/) const override {
    AppendPngChunk("IEND", "", file);
    return absl::OkStatus();
  }

 private:
  // Size, place (at the left and top), duration in seconds, and that the frame is left as it is and
  // takes the place of all before it.
  void AppendControl(uint32_t sequence, std::string& file) const {
    const std::string size = absl::StrCat(PngNumber(info_.width), PngNumber(info_.height));
    const std::string duration =
        absl::StrCat(SixteenBits(rate_.seconds), SixteenBits(rate_.frames));
    AppendPngChunk("fcTL",
                   absl::StrCat(PngNumber(sequence), size, PngNumber(0), PngNumber(0), duration,
                                absl::string_view("\0\0", 2)),
                   file);
  }

  const VideoInfo info_;
  const FrameRate rate_;
};

}  // namespace

std::unique_ptr<VideoContainer> MakeApng(const VideoInfo& info) {
  return std::make_unique<Apng>(info);
}

}  // namespace latentd::image
