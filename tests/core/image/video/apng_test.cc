// Animated PNG: its chunks by a reader of this file's, each frame's pixels by libpng.
#include "core/image/video/apng.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "absl/strings/str_cat.h"
#include "core/image/decode.h"
#include "core/image/encode.h"
#include "tests/core/image/video/videos.h"

namespace latentd::image {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::string_view kSignature("\x89PNG\r\n\x1A\n", 8);

struct NamedChunk {
  std::string name;
  std::string data;
};

uint32_t ChecksumOf(absl::string_view bytes) {
  return crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
}

std::string FourBytes(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::string ChunkBytes(absl::string_view name, absl::string_view data) {
  const std::string checked = absl::StrCat(name, data);
  return absl::StrCat(FourBytes(data.size()), checked, FourBytes(ChecksumOf(checked)));
}

std::vector<NamedChunk> ReadChunks(absl::string_view file) {
  EXPECT_EQ(file.substr(0, 8), kSignature);
  std::vector<NamedChunk> chunks;
  for (size_t at = 8; at < file.size();) {
    const size_t length = BigEndianAt(file, at, 4);
    const absl::string_view data = file.substr(at + 8, length);
    chunks.push_back({std::string(file.substr(at + 4, 4)), std::string(data)});
    EXPECT_EQ(file.substr(at, 12 + length), ChunkBytes(chunks.back().name, data));
    at += 12 + length;
  }
  return chunks;
}

// The fields of a frame's fcTL behind its number.
struct Control {
  uint32_t width, height, left, top, numerator, denominator, dispose, blend;
  bool operator==(const Control&) const = default;
};

Control ControlIn(absl::string_view data) {
  EXPECT_EQ(data.size(), 26u);
  return {BigEndianAt(data, 4, 4),  BigEndianAt(data, 8, 4),  BigEndianAt(data, 12, 4),
          BigEndianAt(data, 16, 4), BigEndianAt(data, 20, 2), BigEndianAt(data, 22, 2),
          BigEndianAt(data, 24, 1), BigEndianAt(data, 25, 1)};
}

struct Animation {
  uint32_t frames = 0, plays = 0;  // as acTL says
  std::vector<Control> controls;
  std::vector<Image> images;
  std::vector<std::string> names;  // all chunks'
};

// A frame's pixels, in a still image of their own.
Image DecodeFrame(absl::string_view header, absl::string_view pixels) {
  const absl::StatusOr<Image> image = Decode(absl::StrCat(
      kSignature, ChunkBytes("IHDR", header), ChunkBytes("IDAT", pixels), ChunkBytes("IEND", "")));
  EXPECT_OK(image);
  return image.value_or(Image());
}

Animation ReadAnimation(absl::string_view file) {
  Animation animation;
  std::string header;
  uint32_t sequence = 0;
  for (const NamedChunk& chunk : ReadChunks(file)) {
    animation.names.push_back(chunk.name);
    if (chunk.name == "fcTL" || chunk.name == "fdAT") {
      EXPECT_EQ(BigEndianAt(chunk.data, 0, 4), sequence++);
    }
    if (chunk.name == "IHDR") header = chunk.data;
    if (chunk.name == "acTL") {
      animation.frames = BigEndianAt(chunk.data, 0, 4);
      animation.plays = BigEndianAt(chunk.data, 4, 4);
    }
    if (chunk.name == "fcTL") animation.controls.push_back(ControlIn(chunk.data));
    if (chunk.name == "IDAT") animation.images.push_back(DecodeFrame(header, chunk.data));
    if (chunk.name == "fdAT") {
      animation.images.push_back(DecodeFrame(header, absl::string_view(chunk.data).substr(4)));
    }
  }
  return animation;
}

TEST(ApngTest, HoldsEachFrameToTheBit) {
  const VideoInfo info{.width = 65, .height = 47, .frames = 3, .fps = 30000.0 / 1001};
  const Animation animation = ReadAnimation(WriteVideo(VideoFormat::kApng, info));
  EXPECT_THAT(animation.names,
              ElementsAre("IHDR", "acTL", "fcTL", "IDAT", "fcTL", "fdAT", "fcTL", "fdAT", "IEND"));
  EXPECT_EQ(animation.frames, 3u);
  EXPECT_EQ(animation.plays, 0u);  // for ever
  const Control whole{65, 47, 0, 0, 1001, 30000, 0, 0};
  EXPECT_THAT(animation.controls, ElementsAre(whole, whole, whole));
  EXPECT_EQ(animation.images, NumberedFrames(info));
}

// More bytes than one part of PNG's compression has.
TEST(ApngTest, HoldsFramesOfSeveralParts) {
  const VideoInfo info{.width = 511, .height = 701, .frames = 2};
  EXPECT_EQ(ReadAnimation(WriteVideo(VideoFormat::kApng, info)).images, NumberedFrames(info));
}

TEST(ApngTest, HoldsASingleFrameAndASinglePixel) {
  const VideoInfo info{.width = 1, .height = 1, .frames = 1, .fps = 1000};
  const Animation animation = ReadAnimation(WriteVideo(VideoFormat::kApng, info));
  EXPECT_THAT(animation.names, ElementsAre("IHDR", "acTL", "fcTL", "IDAT", "IEND"));
  EXPECT_THAT(animation.controls, ElementsAre(Control{1, 1, 0, 0, 1, 1000, 0, 0}));
  EXPECT_EQ(animation.images, NumberedFrames(info));
}

TEST(ApngTest, HoldsManyFrames) {
  const VideoInfo info{.width = 8, .height = 8, .frames = 10000};
  const Animation animation = ReadAnimation(WriteVideo(VideoFormat::kApng, info));
  EXPECT_EQ(animation.frames, 10000u);
  EXPECT_EQ(animation.images, NumberedFrames(info));
}

TEST(ApngTest, ShowsItsFirstFrameToReadersOfStillImages) {
  const VideoInfo info{.width = 16, .height = 8, .frames = 3, .parameters = "a star"};
  ASSERT_OK_AND_ASSIGN(const Image first, Decode(WriteVideo(VideoFormat::kApng, info)));
  EXPECT_EQ(first, NumberedFrame(0, 16, 8));
}

TEST(ApngTest, SaysWhatMadeItAsAStillImageDoes) {
  const VideoInfo info{
      .width = 8, .height = 8, .frames = 2, .parameters = std::string("a caf\u00E9\0b", 8)};
  ASSERT_OK_AND_ASSIGN(const std::string still, Encode(Gradient(8, 8), {}, info.parameters));
  std::string text;
  for (const NamedChunk& chunk : ReadChunks(still)) {
    if (chunk.name == "iTXt") text = ChunkBytes("iTXt", chunk.data);
  }
  ASSERT_NE(text, "");
  const std::string file = WriteVideo(VideoFormat::kApng, info);
  EXPECT_THAT(file, HasSubstr(text));
  EXPECT_THAT(ReadAnimation(file).names,
              ElementsAre("IHDR", "acTL", "iTXt", "fcTL", "IDAT", "fcTL", "fdAT", "IEND"));
}

}  // namespace
}  // namespace latentd::image
