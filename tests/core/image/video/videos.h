// Videos that tests write.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/image/video/video_file.h"
#include "tests/core/image/pictures.h"
#include "tests/support/status_matchers.h"

namespace latentd::image {

// Smooth, and another one for each number up to 127.
inline Image NumberedFrame(int number, int width, int height) {
  Image frame = Gradient(width, height);
  for (size_t i = 0; i < frame.rgb.size(); ++i) {
    const int step = 29 + 14 * static_cast<int>(i % 3);
    frame.rgb[i] = static_cast<uint8_t>(frame.rgb[i] / 2 + number * step % 128);
  }
  return frame;
}

inline std::vector<Image> NumberedFrames(const VideoInfo& info) {
  std::vector<Image> frames;
  for (int i = 0; i < info.frames; ++i) {
    frames.push_back(NumberedFrame(i, info.width, info.height));
  }
  return frames;
}

// The file of the frames, added one by one.
inline std::string WriteVideo(VideoFormat format, const VideoInfo& info) {
  absl::StatusOr<std::unique_ptr<VideoWriter>> writer = MakeVideoWriter(format, info);
  EXPECT_OK(writer);
  if (!writer.ok()) return "";
  for (int i = 0; i < info.frames; ++i) {
    EXPECT_OK((*writer)->Add(NumberedFrame(i, info.width, info.height)));
  }
  const absl::StatusOr<std::string> file = (*writer)->Finish();
  EXPECT_OK(file);
  return file.value_or("");
}

// The largest of a byte of theirs; 256 where they have other sizes.
inline int LargestByteDifference(const Image& a, const Image& b) {
  if (a.width != b.width || a.height != b.height || a.rgb.size() != b.rgb.size()) return 256;
  int largest = 0;
  for (size_t i = 0; i < a.rgb.size(); ++i) {
    largest = std::max(largest, std::abs(a.rgb[i] - b.rgb[i]));
  }
  return largest;
}

// A number of `count` bytes at `offset`.
inline uint32_t LittleEndianAt(absl::string_view bytes, size_t offset, int count) {
  uint32_t value = 0;
  for (int i = count - 1; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[offset + i]);
  return value;
}

inline uint32_t BigEndianAt(absl::string_view bytes, size_t offset, int count) {
  uint32_t value = 0;
  for (int i = 0; i < count; ++i) value = value << 8 | static_cast<uint8_t>(bytes[offset + i]);
  return value;
}

}  // namespace latentd::image
