#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/image/png/deflate.h"
#include "core/image/png/png.h"
#include "core/image/png/png_write.h"

namespace latentd::image {

absl::StatusOr<std::string> EncodePng(const Image& image, absl::string_view parameters,
                                      const RunParts& run_parts) {
  // A chunk holds 2^31 - 1 bytes. All pixels are in one, and compression may add a few.
  constexpr int64_t kMostBytes = 2'000'000'000;
  if ((int64_t{3} * image.width + 1) * image.height > kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a picture of ", image.width, "x", image.height, " is too large for a PNG"));
  }
  const PngPixels pixels = CompressPng(image, run_parts);
  const size_t bytes = ZlibStreamSize(pixels);
  std::string png(kPngSignature);
  png.reserve(bytes + parameters.size() + 128);
  AppendPngHeader(image.width, image.height, png);
  AppendPngParameters(parameters, png);
  AppendPngChunk(
      "IDAT", bytes, [&](std::string& to) { AppendZlibStream(pixels, to); }, png);
  AppendPngChunk("IEND", "", png);
  return png;
}

}  // namespace latentd::image
