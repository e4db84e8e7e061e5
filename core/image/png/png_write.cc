// PNG as its specification has it, with our own filtering (png_filter.h) and compression
// (deflate.h). A general compressor at its fastest takes three times as long for files that are no
// smaller, libpng with zlib thirty times.
#include "core/image/png/png_write.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "core/image/pixels/file_text.h"
#include "core/image/png/png_filter.h"

namespace latentd::image {
namespace {

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

}  // namespace

std::string PngNumber(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

void AppendPngChunk(absl::string_view type, size_t bytes,
                    absl::FunctionRef<void(std::string& png)> append, std::string& png) {
  absl::StrAppend(&png, PngNumber(static_cast<uint32_t>(bytes)), type);
  append(png);
  const size_t checked = type.size() + bytes;
  absl::StrAppend(&png, PngNumber(libdeflate_crc32(0, png.data() + png.size() - checked, checked)));
}

void AppendPngChunk(absl::string_view type, absl::string_view content, std::string& png) {
  AppendPngChunk(
      type, content.size(), [&](std::string& to) { absl::StrAppend(&to, content); }, png);
}

void AppendPngHeader(int width, int height, std::string& png) {
  AppendPngChunk(
      "IHDR",
      absl::StrCat(PngNumber(width), PngNumber(height), absl::string_view("\x08\x02\0\0\0", 5)),
      png);
}

void AppendPngParameters(absl::string_view parameters, std::string& png) {
  if (parameters.empty()) return;
  AppendPngChunk(
      "iTXt", absl::StrCat(absl::string_view("parameters\0\0\0\0\0", 15), WithoutNul(parameters)),
      png);
}

PngPixels CompressPng(const Image& image, const RunParts& run_parts) {
  const int rows = RowsOfAPart(image), count = (image.height + rows - 1) / rows;
  PngPixels parts(count);
  run_parts(count, [&](int part) {
    const int first = part * rows;
    parts[part] = CompressedRows(image, first, std::min(first + rows, image.height));
  });
  return parts;
}

}  // namespace latentd::image
