#include "core/image/video/raw.h"

namespace latentd::image {
namespace {

class Raw : public VideoContainer {
 public:
  bool IsFinalAsAdded() const override { return true; }
  void Begin(std::string& /*file*/) const override {}

  absl::StatusOr<std::string> Encode(const Image& frame) const override {
    return std::string(frame.rgb.begin(), frame.rgb.end());
  }

  void Append(int /*number*/, absl::string_view encoded, std::string& file) const override {
    file.append(encoded.data(), encoded.size());
  }

  absl::Status End(std::string& /*file*/, BeforeFrame /*before_frame*/) const override {
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<VideoContainer> MakeRaw(const VideoInfo& /*info*/) {
  return std::make_unique<Raw>();
}

}  // namespace latentd::image
