#include "core/image/video/avi.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/image/jpeg.h"
#include "core/image/pixels/byte_order.h"
#include "core/image/pixels/file_text.h"
#include "core/image/video/frame_rate.h"
#include "core/image/video/riff.h"

namespace latentd::image {
namespace {

constexpr absl::string_view kFrameName = "00dc";  // compressed, of stream 0
constexpr uint64_t kIndexEntry = 16;              // bytes

std::string U32(uint64_t value) { return LittleEndian(value, 4); }
std::string U16(uint64_t value) { return LittleEndian(value, 2); }

std::string List(absl::string_view name, absl::string_view chunks) {
  return RiffChunk("LIST", absl::StrCat(name, chunks));
}

// Numbers that are known when all frames are there.
struct Sizes {
  uint64_t file = kRiffChunkHeader;  // bytes in all
  uint64_t frames = 0;               // bytes of all chunks of frames
  uint64_t largest = 0;              // bytes of the largest chunk
};

class Avi : public VideoContainer {
 public:
  explicit Avi(const VideoInfo& info) : info_(info), rate_(FrameRateOf(info.fps)) {}

  uint64_t MostBytes() const override {
    return kMostRiffBytes - kRiffChunkHeader - kIndexEntry * info_.frames;
  }

  bool IsFinalAsAdded() const override { return false; }
  void Begin(std::string& file) const override { file = Header({}); }

  absl::StatusOr<std::string> Encode(const Image& frame) const override {
    return EncodeJpeg(frame, info_.quality);
  }

  void Append(int /*number*/, absl::string_view encoded, std::string& file) const override {
    absl::StrAppend(&file, RiffChunkHeader(kFrameName, encoded.size()), encoded,
                    absl::string_view("\0", encoded.size() % 2));
  }

  absl::Status End(std::string& file, BeforeFrame /*before_frame*/) const override {
    const size_t begin = Header({}).size();
    Sizes sizes{.frames = file.size() - begin};
    file += Index(file, begin, sizes);
    sizes.file = file.size();
    file.replace(0, begin, Header(sizes));
    return absl::OkStatus();
  }

 private:
  // All that stands before the first frame, of which no number changes the length.
  std::string Header(const Sizes& sizes) const {
    std::string lists =
        List("hdrl", absl::StrCat(MainHeader(sizes),
                                  List("strl", absl::StrCat(StreamHeader(sizes), StreamFormat()))));
    if (!info_.parameters.empty()) lists += Comment();
    const absl::string_view movi = "movi";
    return absl::StrCat(RiffChunkHeader("RIFF", sizes.file - kRiffChunkHeader), "AVI ", lists,
                        RiffChunkHeader("LIST", movi.size() + sizes.frames), movi);
  }

  // AVIMAINHEADER.
  std::string MainHeader(const Sizes& sizes) const {
    constexpr int64_t kMicroseconds = 1'000'000;
    constexpr uint32_t kPadding = 0, kHasIndex = 0x10, kFramesBefore = 0, kStreams = 1;
    const uint64_t rate = std::min<uint64_t>(
        (sizes.largest * rate_.frames + rate_.seconds - 1) / rate_.seconds,  // bytes a second
        std::numeric_limits<uint32_t>::max());
    return RiffChunk(
        "avih", absl::StrCat(U32(StartOf(1, rate_, kMicroseconds)), U32(rate), U32(kPadding),
                             U32(kHasIndex), U32(info_.frames), U32(kFramesBefore), U32(kStreams),
                             U32(sizes.largest), U32(info_.width), U32(info_.height),
                             std::string(16, '\0')));
  }

  // AVISTREAMHEADER.
  std::string StreamHeader(const Sizes& sizes) const {
    constexpr uint32_t kFlags = 0, kPriority = 0, kLanguage = 0, kFramesBefore = 0, kStart = 0;
    constexpr uint32_t kDefaultQuality = 0xFFFFFFFF, kSizesDiffer = 0;
    return RiffChunk(
        "strh",
        absl::StrCat("vidsMJPG", U32(kFlags), U16(kPriority), U16(kLanguage), U32(kFramesBefore),
                     U32(rate_.seconds), U32(rate_.frames), U32(kStart), U32(info_.frames),
                     U32(sizes.largest), U32(kDefaultQuality), U32(kSizesDiffer),
                     absl::StrCat(U16(0), U16(0), U16(info_.width), U16(info_.height))));
  }

  // BITMAPINFOHEADER.
  std::string StreamFormat() const {
    constexpr uint32_t kBytes = 40, kPlanes = 1, kBitsOfAPixel = 24;
    return RiffChunk(
        "strf", absl::StrCat(U32(kBytes), U32(info_.width), U32(info_.height), U16(kPlanes),
                             U16(kBitsOfAPixel), "MJPG",
                             U32(uint64_t{3} * info_.width * info_.height), std::string(16, '\0')));
  }

  std::string Comment() const {
    const std::string text = WithoutNul(info_.parameters);
    return List("INFO", RiffChunk("ICMT", absl::StrCat(text, absl::string_view("\0", 1))));
  }

  // The place of each frame, counted from "movi", and its size. Notes the largest.
  std::string Index(absl::string_view file, size_t begin, Sizes& sizes) const {
    constexpr uint32_t kKeyFrame = 0x10, kMoviBytes = 4;
    const Bytes bytes(file, ByteOrder::kLittle);
    std::string index = RiffChunkHeader("idx1", kIndexEntry * info_.frames);
    for (size_t at = begin; at < file.size();) {
      const uint64_t size = bytes.U32(at + 4);
      absl::StrAppend(&index, kFrameName, U32(kKeyFrame), U32(at - begin + kMoviBytes), U32(size));
      sizes.largest = std::max(sizes.largest, size + size % 2 + kRiffChunkHeader);
      at += kRiffChunkHeader + size + size % 2;
    }
    return index;
  }

  const VideoInfo info_;
  const FrameRate rate_;
};

}  // namespace

std::unique_ptr<VideoContainer> MakeAvi(const VideoInfo& info) {
  return std::make_unique<Avi>(info);
}

}  // namespace latentd::image
