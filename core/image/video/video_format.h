// The formats of a file that holds a video.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace latentd::image {

enum class VideoFormat : uint8_t {
  kWebp,  // animated WebP, lossy
  kApng,  // animated PNG, lossless; a reader that knows PNG alone sees the first frame
  kAvi,   // Motion JPEG in AVI
  kY4m,   // YUV4MPEG2, uncompressed: y4m.h
  kRaw,   // frames of height x width x 3 bytes, no header
  kWebm,  // VP9 in WebM: webm.h
};

struct VideoFileType {
  VideoFormat format;
  absl::string_view name;       // in requests: "webp"
  absl::string_view mime_type;  // "image/webp"
  absl::string_view extension;  // end of a file's name, without the dot
  bool has_quality;             // it is lossy
  bool holds_text;              // as video_file.h says where
  bool is_built_in;             // false: this build writes none, as CheckBuiltIn says
};

// One for each format, in the order of the enum.
absl::Span<const VideoFileType> VideoFileTypes();

// REQUIRES: `format` is one of the enum's.
const VideoFileType& TypeOf(VideoFormat format);

// FAILED_PRECONDITION with reason FORMAT_UNAVAILABLE, and how to build it, for a type that this
// build does not write.
absl::Status CheckBuiltIn(const VideoFileType& type);

}  // namespace latentd::image
