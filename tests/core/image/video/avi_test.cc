// AVI: its chunks by a reader of this file's, each frame by libjpeg.
#include "core/image/video/avi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "core/image/decode.h"
#include "core/image/encode.h"
#include "tests/core/image/video/videos.h"

namespace latentd::image {
namespace {

using ::testing::ElementsAre;
using ::testing::Le;

struct RiffPart {
  std::string name;        // a list's kind, or a chunk's name
  absl::string_view data;  // a list's chunks
  size_t offset;           // from the beginning of what was read
};

// Chunks that fill `bytes` to the last one.
std::vector<RiffPart> ReadParts(absl::string_view bytes) {
  std::vector<RiffPart> parts;
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = LittleEndianAt(bytes, at + 4, 4);
    EXPECT_LE(at + 8 + length + length % 2, bytes.size());
    RiffPart part{std::string(bytes.substr(at, 4)), bytes.substr(at + 8, length), at};
    if (part.name == "LIST" || part.name == "RIFF") {
      part.name = std::string(part.data.substr(0, 4));
      part.data.remove_prefix(4);
    }
    parts.push_back(part);
    at += 8 + length + length % 2;
  }
  return parts;
}

absl::string_view PartNamed(absl::string_view bytes, absl::string_view name) {
  for (const RiffPart& part : ReadParts(bytes)) {
    if (part.name == name) return part.data;
  }
  ADD_FAILURE() << "no chunk " << name;
  return "";
}

// All chunks' names in the file, of lists with what they hold.
std::string Outline(absl::string_view bytes) {
  std::string outline;
  for (const RiffPart& part : ReadParts(bytes)) {
    outline += part.name + " ";
    if (part.name == "hdrl" || part.name == "strl" || part.name == "movi" || part.name == "INFO") {
      outline += "( " + Outline(part.data) + ") ";
    }
  }
  return outline;
}

absl::string_view ContentOf(absl::string_view file) {
  const std::vector<RiffPart> parts = ReadParts(file);
  EXPECT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].name, "AVI ");
  return parts[0].data;
}

std::vector<Image> ReadFrames(absl::string_view file) {
  std::vector<Image> frames;
  for (const RiffPart& part : ReadParts(PartNamed(ContentOf(file), "movi"))) {
    EXPECT_EQ(part.name, "00dc");
    const absl::StatusOr<Image> frame = Decode(part.data);
    EXPECT_OK(frame);
    frames.push_back(frame.value_or(Image()));
  }
  return frames;
}

// The index has the place and size of each frame, counted from the list's kind.
void ExpectIndexOfFrames(absl::string_view file) {
  const absl::string_view index = PartNamed(ContentOf(file), "idx1");
  const std::vector<RiffPart> frames = ReadParts(PartNamed(ContentOf(file), "movi"));
  ASSERT_EQ(index.size(), 16 * frames.size());
  for (size_t i = 0; i < frames.size(); ++i) {
    const absl::string_view entry = index.substr(16 * i, 16);
    ASSERT_EQ(entry.substr(0, 4), "00dc");
    ASSERT_EQ(LittleEndianAt(entry, 4, 4), 0x10u);  // a key frame
    ASSERT_EQ(LittleEndianAt(entry, 8, 4), frames[i].offset + 4);
    ASSERT_EQ(LittleEndianAt(entry, 12, 4), frames[i].data.size());
  }
}

std::vector<uint32_t> Words(absl::string_view data) {
  std::vector<uint32_t> words;
  for (size_t i = 0; i + 4 <= data.size(); i += 4) words.push_back(LittleEndianAt(data, i, 4));
  return words;
}

uint32_t LargestFrame(absl::string_view file) {
  size_t largest = 0;
  for (const RiffPart& part : ReadParts(PartNamed(ContentOf(file), "movi"))) {
    largest = std::max(largest, 8 + part.data.size() + part.data.size() % 2);
  }
  return static_cast<uint32_t>(largest);
}

TEST(AviTest, HoldsEachFrame) {
  const VideoInfo info{.width = 65, .height = 47, .frames = 8};
  const std::string file = WriteVideo(VideoFormat::kAvi, info);
  EXPECT_EQ(Outline(ContentOf(file)),
            "hdrl ( avih strl ( strh strf ) ) movi ( 00dc 00dc 00dc 00dc 00dc 00dc 00dc 00dc ) "
            "idx1 ");
  const std::vector<Image> frames = ReadFrames(file);
  ASSERT_EQ(frames.size(), 8u);
  for (int i = 0; i < info.frames; ++i) {
    EXPECT_THAT(LargestByteDifference(frames[i], NumberedFrame(i, 65, 47)), Le(12)) << i;
  }
  ExpectIndexOfFrames(file);
}

TEST(AviTest, HoldsTheJpegsOfAQuality) {
  VideoInfo info{.width = 64, .height = 48, .frames = 2};
  for (const int quality : {1, 50, 100}) {
    info.quality = quality;
    const std::string file = WriteVideo(VideoFormat::kAvi, info);
    ASSERT_OK_AND_ASSIGN(
        const std::string still,
        Encode(NumberedFrame(1, 64, 48), {.format = Format::kJpeg, .quality = quality}));
    EXPECT_EQ(ReadParts(PartNamed(ContentOf(file), "movi")).at(1).data, still);
  }
}

TEST(AviTest, SaysHowItIsPlayed) {
  const VideoInfo info{.width = 20, .height = 30, .frames = 5, .fps = 30000.0 / 1001};
  const std::string file = WriteVideo(VideoFormat::kAvi, info);
  const absl::string_view headers = PartNamed(ContentOf(file), "hdrl");
  const uint32_t largest = LargestFrame(file);
  EXPECT_THAT(Words(PartNamed(headers, "avih")),
              ElementsAre(33367,                            // microseconds a frame
                          (largest * 30000 + 1000) / 1001,  // most bytes a second
                          0, 0x10,                          // padding; it has an index
                          5, 0, 1, largest, 20, 30,         // frames, streams, buffer, size
                          0, 0, 0, 0));
  const absl::string_view stream = PartNamed(headers, "strl");
  const absl::string_view header = PartNamed(stream, "strh");
  EXPECT_EQ(header.substr(0, 8), "vidsMJPG");
  EXPECT_THAT(Words(header.substr(8)),
              ElementsAre(0, 0, 0, 1001, 30000, 0, 5, largest, 0xFFFFFFFF, 0, 0, 20 | 30 << 16));
  const absl::string_view format = PartNamed(stream, "strf");
  EXPECT_THAT(Words(format.substr(0, 16)), ElementsAre(40, 20, 30, 1 | 24 << 16));
  EXPECT_EQ(format.substr(16, 4), "MJPG");
  EXPECT_THAT(Words(format.substr(20)), ElementsAre(3 * 20 * 30, 0, 0, 0, 0));
}

TEST(AviTest, HoldsASingleFrameAndASinglePixel) {
  const VideoInfo info{.width = 1, .height = 1, .frames = 1, .fps = 1};
  const std::string file = WriteVideo(VideoFormat::kAvi, info);
  const std::vector<Image> frames = ReadFrames(file);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_THAT(LargestByteDifference(frames[0], NumberedFrame(0, 1, 1)), Le(12));
  EXPECT_EQ(Words(PartNamed(PartNamed(ContentOf(file), "hdrl"), "avih"))[0], 1'000'000u);
  ExpectIndexOfFrames(file);
}

TEST(AviTest, HoldsManyFrames) {
  const VideoInfo info{.width = 8, .height = 8, .frames = 10000};
  const std::string file = WriteVideo(VideoFormat::kAvi, info);
  ExpectIndexOfFrames(file);
  const std::vector<Image> frames = ReadFrames(file);
  ASSERT_EQ(frames.size(), 10000u);
  EXPECT_THAT(LargestByteDifference(frames[9999], NumberedFrame(9999, 8, 8)), Le(12));
}

TEST(AviTest, SaysWhatMadeIt) {
  VideoInfo info{.width = 8, .height = 8, .frames = 1};
  for (const auto& [text, comment] : {std::pair{std::string("even"), std::string("even\0", 5)},
                                      {std::string("odd"), std::string("odd\0", 4)},
                                      {std::string("a\0b", 3), std::string("a\xEF\xBF\xBD"
                                                                           "b\0",
                                                                           6)}}) {
    info.parameters = text;
    const std::string file = WriteVideo(VideoFormat::kAvi, info);
    EXPECT_EQ(Outline(ContentOf(file)),
              "hdrl ( avih strl ( strh strf ) ) INFO ( ICMT ) movi ( 00dc ) idx1 ");
    EXPECT_EQ(PartNamed(PartNamed(ContentOf(file), "INFO"), "ICMT"), comment);
    ExpectIndexOfFrames(file);
  }
}

TEST(AviTest, StaysBelowFourGigabytesWithItsIndex) {
  const VideoInfo info{.width = 8, .height = 8, .frames = 3};
  const std::unique_ptr<VideoContainer> avi = MakeAvi(info);
  std::string file;
  avi->Begin(file);
  for (int i = 0; i < 3; ++i) avi->Append(i, avi->Encode(Gradient(8, 8)).value(), file);
  const size_t before = file.size();
  ASSERT_OK(avi->End(file, GoOn));
  EXPECT_EQ(avi->MostBytes() + (file.size() - before), 0xFFFFFFFEu);
}

}  // namespace
}  // namespace latentd::image
