#include "core/image/png/png_chunks.h"

#include <libdeflate.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/image/pixels/byte_order.h"

namespace latentd::image {
namespace {

constexpr size_t kSignatureBytes = 8, kHeaderBytes = 13;

absl::Status Damaged(absl::string_view how) {
  return absl::InvalidArgumentError(absl::StrCat("the PNG is damaged or cut short: ", how));
}

bool IsName(absl::string_view name) {
  return name.size() == 4 && std::all_of(name.begin(), name.end(), [](char letter) {
           return absl::ascii_isalnum(static_cast<unsigned char>(letter)) || letter == '_';
         });
}

bool IsText(absl::string_view name) {
  return name == "eXIf" || name == "tEXt" || name == "zTXt" || name == "iTXt";
}

bool HasItsChecksum(absl::string_view name_and_data, uint32_t checksum) {
  return libdeflate_crc32(0, name_and_data.data(), name_and_data.size()) == checksum;
}

// Goes over the chunks and keeps what counts.
class ChunkReader {
 public:
  explicit ChunkReader(absl::string_view bytes) : bytes_(bytes), file_(bytes, ByteOrder::kBig) {}

  absl::StatusOr<PngParts> Read() {
    while (!at_end_) RETURN_IF_ERROR(ReadChunk());
    if (!has_header_) return Damaged("it has no header");
    if (parts_.data.empty()) return Damaged("it has no pixels");
    return std::move(parts_);
  }

 private:
  bool HasPixels() const { return !parts_.data.empty(); }

  absl::Status ReadChunk() {
    const absl::string_view name = Part(bytes_, at_ + 4, 4);
    if (!IsName(name)) return End(name);
    const size_t length = file_.U32(at_);
    const absl::string_view data = Part(bytes_, at_ + 8, length);
    const bool whole = data.size() == length;
    const bool right =
        whole && (name == "IDAT" ||
                  HasItsChecksum(bytes_.substr(at_ + 4, 4 + length), file_.U32(at_ + 8 + length)));
    at_ += 12 + length;
    at_end_ = !whole || name == "IEND" || (name == "fcTL" && HasPixels() && IsAnimated());
    if (name == "IDAT" && !whole) PassOver("it has no end (IEND) behind its pixels");
    return Keep({name, data}, right);
  }

  // Ends the reading: the bytes in place of the next chunk are no chunk.
  absl::Status End(absl::string_view name) {
    at_end_ = true;
    if (!HasPixels()) {
      return Damaged(at_ + 8 > bytes_.size()
                         ? std::string("it ends too early")
                         : absl::StrCat("a chunk is named \"", Excerpt(name), "\""));
    }
    PassOver("it has no end (IEND) behind its pixels");
    return absl::OkStatus();
  }

  absl::Status Keep(const PngChunk& chunk, bool right) {
    if (chunk.name == "IDAT") return KeepData(chunk);
    follows_data_ = false;
    if (chunk.name == "IEND") return absl::OkStatus();
    if (!right) return KeepDamaged(chunk);
    if (IsText(chunk.name)) parts_.texts.push_back(chunk);
    if (HasPixels()) return absl::OkStatus();
    if (chunk.name == "IHDR") return KeepHeader(chunk.data);
    if (chunk.name == "PLTE" && HasPalette()) parts_.palette = chunk.data;
    if (chunk.name == "acTL") frames_ = Bytes(chunk.data, ByteOrder::kBig).U32(0);
    if (chunk.name == "fcTL") pixels_are_a_frame_ = true;
    return absl::OkStatus();
  }

  // Behind the pixels Pillow looks at no checksum.
  absl::Status KeepDamaged(const PngChunk& chunk) {
    if (!HasPixels() && (chunk.name == "IHDR" || chunk.name == "PLTE")) {
      return Damaged(absl::StrCat("its ", chunk.name, " is cut short or has another checksum"));
    }
    if (HasPixels() && !at_end_ && IsText(chunk.name)) parts_.texts.push_back(chunk);
    PassOver(absl::StrCat("its chunk ", chunk.name, " is damaged"));
    return absl::OkStatus();
  }

  // Behind the first frame of an animation Pillow reads nothing.
  bool IsAnimated() const { return frames_ > (pixels_are_a_frame_ ? 1 : 0); }

  // Pixels are one run of such chunks; what comes behind another chunk is not theirs.
  absl::Status KeepData(const PngChunk& chunk) {
    if (HasPixels() && !follows_data_) return absl::OkStatus();
    parts_.data.push_back(chunk.data);
    follows_data_ = true;
    return absl::OkStatus();
  }

  absl::Status KeepHeader(absl::string_view data) {
    if (data.size() < kHeaderBytes) return Damaged("its header (IHDR) is too short");
    const Bytes header(data, ByteOrder::kBig);
    parts_.width = header.U32(0);
    parts_.height = header.U32(4);
    parts_.bit_depth = static_cast<uint8_t>(data[8]);
    parts_.color_type = static_cast<uint8_t>(data[9]);
    parts_.interlaced = data[12] != 0;
    if (data[11] != 0) return Damaged("its filter method is not known");
    has_header_ = true;
    return absl::OkStatus();
  }

  bool HasPalette() const { return has_header_ && parts_.color_type == kPngPalette; }

  // A file of many damaged chunks says so once for a few of them.
  void PassOver(std::string what) {
    constexpr size_t kMost = 4;
    if (parts_.passed_over.size() < kMost) parts_.passed_over.push_back(std::move(what));
  }

  absl::string_view bytes_;
  Bytes file_;
  size_t at_ = kSignatureBytes;
  bool at_end_ = false, has_header_ = false, follows_data_ = false;
  uint32_t frames_ = 0;              // frames of an animation
  bool pixels_are_a_frame_ = false;  // its first one, and not a picture before it
  PngParts parts_;
};

}  // namespace

absl::StatusOr<PngParts> ReadPngParts(absl::string_view bytes) { return ChunkReader(bytes).Read(); }

}  // namespace latentd::image
