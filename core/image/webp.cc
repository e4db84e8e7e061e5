#include "core/image/webp.h"

#include <webp/decode.h>
#include <webp/encode.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/image/pixels/byte_order.h"

namespace latentd::image {
namespace {

struct WebpFree {
  void operator()(uint8_t* bytes) const { WebPFree(bytes); }
};

const uint8_t* Data(absl::string_view bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

absl::Status Damaged() { return absl::InvalidArgumentError("the WebP is damaged or cut short"); }

constexpr size_t kHeader = 12, kChunkHeader = 8;  // the file's header; name and length of a chunk

// From the first chunk of that name on, or nothing. `chunks` is one behind the other.
absl::string_view FindChunk(absl::string_view chunks, absl::string_view name) {
  while (chunks.size() >= kChunkHeader) {
    if (absl::StartsWith(chunks, name)) return chunks;
    const size_t length = Bytes(chunks, ByteOrder::kLittle).U32(4);
    chunks.remove_prefix(std::min(chunks.size(), kChunkHeader + length + length % 2));
  }
  return {};
}

// A part of the picture, and what libwebp decodes it of.
struct Frame {
  int left = 0, top = 0;
  Dimensions size;
  absl::string_view bytes;
};

// `chunk` begins with a picture of an animation. Its transparency counts as little as that of any
// other picture, so that the first one is what is seen of it on black.
absl::StatusOr<Frame> ReadFrame(absl::string_view chunk, Dimensions canvas) {
  constexpr size_t kFrameHeader = 16;
  const absl::string_view data = Part(chunk, kChunkHeader, Bytes(chunk, ByteOrder::kLittle).U32(4));
  const Bytes header(data, ByteOrder::kLittle);
  const absl::string_view parts = Part(data, kFrameHeader, data.size());
  Frame frame{.left = static_cast<int>(2 * header.U24(0)),
              .top = static_cast<int>(2 * header.U24(3)),
              .size = {},
              .bytes = FindChunk(parts, "VP8 ")};
  if (frame.bytes.empty()) frame.bytes = FindChunk(parts, "VP8L");
  WebPBitstreamFeatures features;
  if (frame.bytes.empty() ||
      WebPGetFeatures(Data(frame.bytes), frame.bytes.size(), &features) != VP8_STATUS_OK) {
    return Damaged();
  }
  frame.size = {features.width, features.height};
  const bool fits = frame.left + frame.size.width <= canvas.width &&
                    frame.top + frame.size.height <= canvas.height;
  if (!fits) return Damaged();
  return frame;
}

absl::Status DecodeFrame(const Frame& frame, Image& image) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0)
    return absl::InternalError("libwebp has another version");
  const size_t offset = size_t{3} * (static_cast<size_t>(frame.top) * image.width + frame.left);
  config.output.colorspace = MODE_RGB;
  config.output.u.RGBA = {image.rgb.data() + offset, 3 * image.width, image.rgb.size() - offset};
  config.output.is_external_memory = 1;
  const VP8StatusCode status = WebPDecode(Data(frame.bytes), frame.bytes.size(), &config);
  if (status == VP8_STATUS_OUT_OF_MEMORY) return OutOfMemoryError("no memory to read a WebP");
  return status == VP8_STATUS_OK ? absl::OkStatus() : Damaged();
}

}  // namespace

bool IsWebp(absl::string_view bytes) {
  return absl::StartsWith(bytes, "RIFF") && bytes.size() >= 12 && bytes.substr(8, 4) == "WEBP";
}

absl::StatusOr<Dimensions> ReadWebpDimensions(absl::string_view bytes) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(Data(bytes), bytes.size(), &features) != VP8_STATUS_OK) return Damaged();
  RETURN_IF_ERROR(CheckSize(features.width, features.height));
  return Dimensions{features.width, features.height};
}

absl::StatusOr<Image> DecodeWebp(absl::string_view bytes, PassedOver& passed_over) {
  ASSIGN_OR_RETURN(const Dimensions size, ReadWebpDimensions(bytes));
  Image image{size.width, size.height, {}};
  image.rgb.resize(size_t{3} * size.width * size.height);
  Frame frame{.size = size, .bytes = bytes};
  if (const absl::string_view first = FindChunk(bytes.substr(kHeader), "ANMF"); !first.empty()) {
    ASSIGN_OR_RETURN(frame, ReadFrame(first, size));
    passed_over.emplace_back("the WebP is animated: its first picture is taken");
  }
  RETURN_IF_ERROR(DecodeFrame(frame, image));
  return image;
}

absl::StatusOr<std::string> EncodeWebp(const Image& image, int quality) {
  if (image.width > WEBP_MAX_DIMENSION || image.height > WEBP_MAX_DIMENSION) {
    return absl::InvalidArgumentError(absl::StrCat("a WebP has at most ", WEBP_MAX_DIMENSION,
                                                   " pixels a side; the picture has ",
                                                   SizeText(image)));
  }
  uint8_t* encoded = nullptr;
  const size_t size = WebPEncodeRGB(image.rgb.data(), image.width, image.height, 3 * image.width,
                                    static_cast<float>(quality), &encoded);
  const std::unique_ptr<uint8_t, WebpFree> owner(encoded);
  if (size == 0) return OutOfMemoryError("no memory to write a WebP");
  return std::string(reinterpret_cast<const char*>(encoded), size);
}

}  // namespace latentd::image
