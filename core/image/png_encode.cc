// PNG as its specification has it, with the filter Paeth in every row, compressed by libdeflate at
// its fastest. libpng's filters and zlib take some ten times as long for files as large, within a
// few percent.
#include <libdeflate.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"
#include "core/image/png.h"

namespace latentd::image {
namespace {

constexpr absl::string_view kSignature = "\x89PNG\r\n\x1A\n";
constexpr int kFastest = 1;
constexpr uint8_t kPaeth = 4;
constexpr int kChannels = 3;

std::string BigEndian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

void AppendChunk(absl::string_view type, absl::string_view content, std::string& png) {
  absl::StrAppend(&png, BigEndian(static_cast<uint32_t>(content.size())), type, content);
  const size_t checked = type.size() + content.size();
  absl::StrAppend(&png, BigEndian(libdeflate_crc32(0, png.data() + png.size() - checked, checked)));
}

// 8 bits a channel, RGB, deflate, filtered, not interlaced.
std::string Header(const Image& image) {
  return absl::StrCat(BigEndian(image.width), BigEndian(image.height),
                      absl::string_view("\x08\x02\0\0\0", 5));
}

// An uncompressed iTXt chunk: keyword, two flags, two empty names, text.
std::string Text(absl::string_view parameters) {
  return absl::StrCat(absl::string_view("parameters\0\0\0\0\0", 15),
                      absl::StrReplaceAll(parameters, {{absl::string_view("\0", 1), "\uFFFD"}}));
}

// Of left, above and left above the one that is nearest to left + above - left above.
uint8_t Predicted(int16_t left, int16_t above, int16_t corner) {
  const auto to_left = static_cast<int16_t>(std::abs(above - corner));
  const auto to_above = static_cast<int16_t>(std::abs(left - corner));
  const auto to_corner = static_cast<int16_t>(std::abs(left + above - 2 * corner));
  const int16_t other = to_above <= to_corner ? above : corner;
  return static_cast<uint8_t>(to_left <= to_above && to_left <= to_corner ? left : other);
}

// A row of `bytes` below the one at `above`, behind its filter's number.
void FilterRow(const uint8_t* row, const uint8_t* above, int bytes, uint8_t* to) {
  *to++ = kPaeth;
  for (int i = 0; i < kChannels; ++i) to[i] = row[i] - above[i];
  for (int i = kChannels; i < bytes; ++i) {
    to[i] = row[i] - Predicted(row[i - kChannels], above[i], above[i - kChannels]);
  }
}

std::vector<uint8_t> Filtered(const Image& image) {
  const int bytes = kChannels * image.width;
  std::vector<uint8_t> filtered(size_t{1} * image.height * (bytes + 1));
  const std::vector<uint8_t> black(bytes);
  const uint8_t* above = black.data();
  for (int y = 0; y < image.height; ++y) {
    const uint8_t* const row = image.rgb.data() + size_t{1} * y * bytes;
    FilterRow(row, above, bytes, filtered.data() + size_t{1} * y * (bytes + 1));
    above = row;
  }
  return filtered;
}

absl::StatusOr<std::string> Compressed(const std::vector<uint8_t>& bytes) {
  const std::unique_ptr<libdeflate_compressor, void (*)(libdeflate_compressor*)> compressor(
      libdeflate_alloc_compressor(kFastest), libdeflate_free_compressor);
  if (compressor == nullptr) return OutOfMemoryError("no memory to write a PNG");
  std::string compressed(libdeflate_zlib_compress_bound(compressor.get(), bytes.size()), '\0');
  const size_t size = libdeflate_zlib_compress(compressor.get(), bytes.data(), bytes.size(),
                                               compressed.data(), compressed.size());
  if (size == 0) return absl::InternalError("libdeflate needs more room than it says");
  compressed.resize(size);
  return compressed;
}

}  // namespace

absl::StatusOr<std::string> EncodePng(const Image& image, absl::string_view parameters) {
  return CatchOutOfMemory([&]() -> absl::StatusOr<std::string> {
    ASSIGN_OR_RETURN(const std::string pixels, Compressed(Filtered(image)));
    std::string png(kSignature);
    png.reserve(pixels.size() + parameters.size() + 128);
    AppendChunk("IHDR", Header(image), png);
    if (!parameters.empty()) AppendChunk("iTXt", Text(parameters), png);
    AppendChunk("IDAT", pixels, png);
    AppendChunk("IEND", "", png);
    return png;
  });
}

}  // namespace latentd::image
