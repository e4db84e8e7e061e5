// PNG as its specification has it, with our own filtering (png_filter.h) and compression
// (deflate.h). A general compressor at its fastest takes three times as long for files that are no
// smaller, libpng with zlib thirty times.
#include <libdeflate.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/image/png/deflate.h"
#include "core/image/png/png.h"
#include "core/image/png/png_filter.h"

namespace latentd::image {
namespace {

constexpr absl::string_view kSignature = "\x89PNG\r\n\x1A\n";

// A chunk holds 2^31 - 1 bytes. All pixels are in one, and compression may add a few.
constexpr int64_t kMostBytes = 2'000'000'000;

std::string BigEndian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

// `append` puts so many bytes behind what it is given.
void AppendChunk(absl::string_view type, size_t bytes,
                 absl::FunctionRef<void(std::string& png)> append, std::string& png) {
  absl::StrAppend(&png, BigEndian(static_cast<uint32_t>(bytes)), type);
  append(png);
  const size_t checked = type.size() + bytes;
  absl::StrAppend(&png, BigEndian(libdeflate_crc32(0, png.data() + png.size() - checked, checked)));
}

void AppendChunk(absl::string_view type, absl::string_view content, std::string& png) {
  AppendChunk(
      type, content.size(), [&](std::string& to) { absl::StrAppend(&to, content); }, png);
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

// Filters and compresses as many rows at a time as make a block, so that they need not be read
// from memory again.
std::unique_ptr<DeflatePart> CompressedRows(const Image& image, int first, int last) {
  RowFilter filter(image, first);
  const size_t rows = std::max<size_t>(1, DeflatePart::kBlock / filter.size());
  std::vector<uint8_t> filtered(filter.size() * rows);
  auto part = std::make_unique<DeflatePart>(filter.size() * (last - first));
  size_t used = 0;
  for (int y = first; y < last; ++y) {
    filter.Next(filtered.data() + used);
    used += filter.size();
    if (used < filtered.size() && y + 1 < last) continue;
    part->Write(absl::MakeSpan(filtered).first(used));
    used = 0;
  }
  part->Finish();
  return part;
}

// Rows of a part that is compressed by itself: some hundred thousand bytes, whole choices of a
// filter. The same for an image on any machine.
int RowsOfAPart(const Image& image) {
  constexpr int kBytes = 384 << 10, kRows = RowFilter::kRowsOfAChoice;
  return std::max(1, kBytes / (3 * image.width) / kRows) * kRows;
}

using Parts = std::vector<std::unique_ptr<DeflatePart>>;

Parts Compressed(const Image& image, const RunParts& run_parts) {
  const int rows = RowsOfAPart(image), count = (image.height + rows - 1) / rows;
  Parts parts(count);
  run_parts(count, [&](int part) {
    const int first = part * rows;
    parts[part] = CompressedRows(image, first, std::min(first + rows, image.height));
  });
  return parts;
}

}  // namespace

absl::StatusOr<std::string> EncodePng(const Image& image, absl::string_view parameters,
                                      const RunParts& run_parts) {
  if ((int64_t{3} * image.width + 1) * image.height > kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a picture of ", image.width, "x", image.height, " is too large for a PNG"));
  }
  const Parts pixels = Compressed(image, run_parts);
  const size_t bytes = ZlibStreamSize(pixels);
  std::string png(kSignature);
  png.reserve(bytes + parameters.size() + 128);
  AppendChunk("IHDR", Header(image), png);
  if (!parameters.empty()) AppendChunk("iTXt", Text(parameters), png);
  AppendChunk(
      "IDAT", bytes, [&](std::string& to) { AppendZlibStream(pixels, to); }, png);
  AppendChunk("IEND", "", png);
  return png;
}

}  // namespace latentd::image
