#include "core/image/video/y4m.h"

#include "absl/strings/str_cat.h"
#include "core/image/video/frame_rate.h"
#include "core/image/video/yuv.h"

namespace latentd::image {
namespace {

constexpr absl::string_view kFrame = "FRAME\n";

class Y4m : public VideoContainer {
 public:
  explicit Y4m(const VideoInfo& info) {
    const FrameRate rate = FrameRateOf(info.fps);
    header_ = absl::StrCat("YUV4MPEG2 W", info.width, " H", info.height, " F", rate.frames, ":",
                           rate.seconds, " Ip A1:1 C420jpeg XCOLORRANGE=LIMITED\n");
  }

  bool IsFinalAsAdded() const override { return true; }
  void Begin(std::string& file) const override { file = header_; }

  absl::StatusOr<std::string> Encode(const Image& frame) const override {
    std::string bytes(kFrame);
    bytes.reserve(kFrame.size() + YuvBytes(frame.width, frame.height));
    AppendYuv(frame, bytes);
    return bytes;
  }

  void Append(int /*number*/, absl::string_view encoded, std::string& file) const override {
    file.append(encoded.data(), encoded.size());
  }

  absl::Status End(std::string& /*file*/, BeforeFrame /*before_frame*/) const override {
    return absl::OkStatus();
  }

 private:
  std::string header_;
};

}  // namespace

std::unique_ptr<VideoContainer> MakeY4m(const VideoInfo& info) {
  return std::make_unique<Y4m>(info);
}

}  // namespace latentd::image
