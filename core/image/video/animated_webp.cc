#include "core/image/video/animated_webp.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/image/video/exif_comment.h"
#include "core/image/video/frame_rate.h"
#include "core/image/video/riff.h"
#include "core/image/webp.h"

namespace latentd::image {
namespace {

constexpr size_t kFileHeader = 12;  // bytes of RIFF, the file's size and WEBP

std::string FileHeader(uint64_t file_bytes) {
  return absl::StrCat(RiffChunkHeader("RIFF", file_bytes - kRiffChunkHeader), "WEBP");
}

class AnimatedWebp : public VideoContainer {
 public:
  explicit AnimatedWebp(const VideoInfo& info)
      : size_(absl::StrCat(LittleEndian(info.width - 1, 3), LittleEndian(info.height - 1, 3))),
        quality_(info.quality),
        rate_(FrameRateOf(info.fps)),
        exif_(info.parameters.empty() ? "" : RiffChunk("EXIF", ExifComment(info.parameters))) {}

  uint64_t MostBytes() const override { return kMostRiffBytes - exif_.size(); }

  bool IsFinalAsAdded() const override { return false; }

  void Begin(std::string& file) const override {
    constexpr uint32_t kHasAnimation = 0x02, kHasExif = 0x08;
    constexpr uint32_t kBackground = 0, kForEver = 0;
    const uint32_t kinds = kHasAnimation | (exif_.empty() ? 0 : kHasExif);
    file = absl::StrCat(
        FileHeader(kFileHeader), RiffChunk("VP8X", absl::StrCat(LittleEndian(kinds, 4), size_)),
        RiffChunk("ANIM", absl::StrCat(LittleEndian(kBackground, 4), LittleEndian(kForEver, 2))));
  }

  // The chunks of a still image's file.
  absl::StatusOr<std::string> Encode(const Image& frame) const override {
    ASSIGN_OR_RETURN(std::string still, EncodeWebp(frame, quality_));
    return still.erase(0, kFileHeader);
  }

  // At the left and top, in the place of all before it (not blended with it).
  void Append(int number, absl::string_view encoded, std::string& file) const override {
    constexpr int64_t kMilliseconds = 1000;
    constexpr uint32_t kNotBlended = 0x02;
    const int64_t duration =
        StartOf(number + 1, rate_, kMilliseconds) - StartOf(number, rate_, kMilliseconds);
    const std::string header = absl::StrCat(LittleEndian(0, 6), size_, LittleEndian(duration, 3),
                                            LittleEndian(kNotBlended, 1));
    absl::StrAppend(&file, RiffChunkHeader("ANMF", header.size() + encoded.size()), header,
                    encoded);
  }

  absl::Status End(std::string& file, BeforeFrame /*before_frame*/) const override {
    file += exif_;
    file.replace(0, kFileHeader, FileHeader(file.size()));
    return absl::OkStatus();
  }

 private:
  const std::string size_;  // less 1, as the file has it
  const int quality_;
  const FrameRate rate_;
  const std::string exif_;  // a chunk; empty: there is none
};

}  // namespace

std::unique_ptr<VideoContainer> MakeAnimatedWebp(const VideoInfo& info) {
  return std::make_unique<AnimatedWebp>(info);
}

}  // namespace latentd::image
