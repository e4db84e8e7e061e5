// libFuzzer target: any bytes as an init image. Its size is known from its header, before it is
// decoded, and it is turned by what its metadata says.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "core/image/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t kMostPixels = int64_t{1} << 16;  // more of them show nothing more
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto dimensions = latentd::image::ReadDimensions(bytes);
  if (dimensions.ok() && int64_t{dimensions->width} * dimensions->height > kMostPixels) return 0;
  latentd::image::PassedOver passed_over;
  const auto image = latentd::image::Decode(bytes, passed_over);
  if (!image.ok()) return 0;
  const bool as_promised = dimensions.ok() && image->width == dimensions->width &&
                           image->height == dimensions->height &&
                           latentd::image::CheckImage(*image).ok();
  if (!as_promised) std::abort();
  return 0;
}
