#include "core/image/video/raw.h"

#include <cstddef>

namespace latentd::image {
namespace {

class Raw : public VideoContainer {
 public:
  explicit Raw(const VideoInfo& info)
      : bytes_(size_t{3} * info.width * info.height * info.frames) {}

  size_t ExpectedBytes() const override { return bytes_; }
  void Begin(std::string& /*file*/) const override {}

  absl::StatusOr<std::string> Encode(const Image& frame) const override {
    return std::string(frame.rgb.begin(), frame.rgb.end());
  }

  void Append(int /*number*/, absl::string_view encoded, std::string& file) const override {
    file.append(encoded.data(), encoded.size());
  }

  void End(std::string& /*file*/) const override {}

 private:
  const size_t bytes_;
};

}  // namespace

std::unique_ptr<VideoContainer> MakeRaw(const VideoInfo& info) {
  return std::make_unique<Raw>(info);
}

}  // namespace latentd::image
