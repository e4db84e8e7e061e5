// EXIF and XMP in a PNG's texts.
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "core/image/png/png.h"
#include "core/image/png/png_chunks.h"

namespace latentd::image {
namespace {

constexpr absl::string_view kExifKey = "exif", kRawExifKey = "Raw profile type exif",
                            kXmpKey = "XML:com.adobe.xmp";
// Most bytes of one text, and of all in an image: Pillow refuses an image with longer ones.
constexpr size_t kMostUnpacked = size_t{1} << 20, kMostUnpackedInAll = size_t{8} << 20;

// Takes what stands before the next NUL, and the NUL; nothing where there is none.
std::optional<absl::string_view> TakeField(absl::string_view& text) {
  const size_t end = text.find('\0');
  if (end == absl::string_view::npos) return std::nullopt;
  const absl::string_view field = text.substr(0, end);
  text.remove_prefix(end + 1);
  return field;
}

// Unpacks a zlib stream as far as it goes; nothing where it is damaged, or longer than it may be.
std::optional<std::string> Unpacked(absl::string_view packed) {
  z_stream stream = {};
  if (inflateInit(&stream) != Z_OK) return std::nullopt;
  const std::unique_ptr<z_stream, int (*)(z_stream*)> owner(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));  // it only reads it
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text;
  std::array<char, 4096> part;
  int result = Z_OK;
  while (result == Z_OK && text.size() <= kMostUnpacked) {
    stream.next_out = reinterpret_cast<Bytef*>(part.data());
    stream.avail_out = part.size();
    result = inflate(&stream, Z_NO_FLUSH);
    text.append(part.data(), part.size() - stream.avail_out);
  }
  const bool right = result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR;
  if (!right || text.size() > kMostUnpacked) return std::nullopt;
  return text;
}

// The texts that count, each the last one of its key.
class Texts {
 public:
  void Add(const PngChunk& chunk) {
    if (chunk.name == "eXIf") exif_ = std::string(chunk.data);
    if (chunk.name == "tEXt") AddPlain(chunk.data);
    if (chunk.name == "zTXt") AddPacked(chunk.data);
    if (chunk.name == "iTXt") AddInternational(chunk.data);
  }

  Metadata Take() && {
    if (!exif_ && raw_exif_) exif_ = FromHex(*raw_exif_);
    return {std::move(exif_), std::move(xmp_)};
  }

 private:
  static bool Counts(absl::string_view key) { return key == kRawExifKey || key == kXmpKey; }

  void AddPlain(absl::string_view text) {
    const std::optional<absl::string_view> key = TakeField(text);
    if (!key) return;
    if (*key == kExifKey) exif_ = std::string(text);
    Keep(*key, std::string(text));
  }

  void AddPacked(absl::string_view text) {
    const std::optional<absl::string_view> key = TakeField(text);
    if (!key || !Counts(*key) || text.empty() || text.front() != 0) return;
    Keep(*key, UnpackedOfAll(text.substr(1)).value_or(""));
  }

  // Key, whether it is packed and how, language, translated key, text.
  void AddInternational(absl::string_view text) {
    const std::optional<absl::string_view> key = TakeField(text);
    if (!key || !Counts(*key) || text.size() < 2) return;
    const bool packed = text[0] != 0;
    if (packed && text[1] != 0) return;
    text.remove_prefix(2);
    if (!TakeField(text) || !TakeField(text)) return;
    std::optional<std::string> value = packed ? UnpackedOfAll(text) : std::string(text);
    if (!value) return;
    Keep(*key, *std::move(value));
  }

  std::optional<std::string> UnpackedOfAll(absl::string_view packed) {
    if (unpacked_ >= kMostUnpackedInAll) return std::nullopt;
    std::optional<std::string> text = Unpacked(packed);
    unpacked_ += text ? text->size() : kMostUnpacked;
    return text;
  }

  void Keep(absl::string_view key, std::string text) {
    if (key == kRawExifKey) raw_exif_ = std::move(text);
    if (key == kXmpKey) xmp_ = std::move(text);
  }

  // ImageMagick's way: an empty line, the name, the length, and lines of hexadecimal digits.
  static std::string FromHex(absl::string_view text) {
    const std::vector<absl::string_view> lines = absl::StrSplit(text, absl::MaxSplits('\n', 3));
    std::string digits(lines.size() > 3 ? lines[3] : "");
    digits.erase(std::remove_if(digits.begin(), digits.end(),
                                [](unsigned char digit) { return absl::ascii_isspace(digit); }),
                 digits.end());
    const bool right = digits.size() % 2 == 0 &&
                       std::all_of(digits.begin(), digits.end(),
                                   [](unsigned char digit) { return absl::ascii_isxdigit(digit); });
    return right ? absl::HexStringToBytes(digits) : std::string();
  }

  std::optional<std::string> exif_, raw_exif_;
  std::string xmp_;
  size_t unpacked_ = 0;
};

}  // namespace

Metadata ReadPngMetadata(absl::string_view bytes) {
  const absl::StatusOr<PngParts> parts = ReadPngParts(bytes);
  if (!parts.ok()) return {};
  Texts texts;
  for (const PngChunk& chunk : parts->texts) texts.Add(chunk);
  return std::move(texts).Take();
}

}  // namespace latentd::image
