// WebM, by a reader of Matroska of the tests' own, with frames that say their numbers; VP9 is in
// ../vp9.
#include "core/image/video/webm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/image/video/ebml.h"
#include "core/image/video/yuv.h"
#include "tests/core/image/video/ebml_reader.h"
#include "tests/core/image/video/videos.h"

namespace latentd::image {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::ElementsAre;

constexpr uint64_t kHead = 0x1A45DFA3, kSegmentId = 0x18538067, kSeekHeadId = 0x114D9B74,
                   kInfoId = 0x1549A966, kTracksId = 0x1654AE6B, kTagsId = 0x1254C367,
                   kCuesId = 0x1C53BB6B, kClusterId = 0x1F43B675, kEntryId = 0xAE, kVideoId = 0xE0;

// A frame is its number and a dot for each byte of its first plane; those are key frames of which
// the number is a multiple of what the video says.
absl::StatusOr<std::vector<Vp9Frame>> NumberFrames(const Vp9Video& video, absl::string_view planes,
                                                   BeforeFrame before_frame) {
  const size_t bytes = YuvBytes(video.width, video.height);
  EXPECT_EQ(planes.size() % bytes, 0u);
  std::vector<Vp9Frame> frames;
  for (size_t i = 0; i < planes.size() / bytes; ++i) {
    RETURN_IF_ERROR(before_frame());
    frames.push_back({i % video.key_frame_every == 0,
                      absl::StrCat(i, std::string(video.width * video.height, '.'))});
  }
  return frames;
}

VideoWriter WriterOf(const VideoInfo& info, EncodeFrames encode = NumberFrames) {
  return VideoWriter(VideoFormat::kWebm, info, MakeWebm(info, std::move(encode)));
}

std::string FileOf(const VideoInfo& info) {
  VideoWriter writer = WriterOf(info);
  EXPECT_OK(writer.Add(NumberedFrames(info)));
  return writer.Finish().value_or("");
}

std::vector<uint64_t> IdsOf(absl::string_view content) {
  std::vector<uint64_t> ids;
  for (const EbmlPart& part : ReadEbml(content)) ids.push_back(part.id);
  return ids;
}

TEST(EbmlTest, HasSizesInAsFewBytesAsHoldThem) {
  EXPECT_EQ(EbmlSize(0), "\x80");
  EXPECT_EQ(EbmlSize(126), "\xFE");
  EXPECT_EQ(EbmlSize(127), "\x40\x7F");  // 0xFF would be a size that is not known
  EXPECT_EQ(EbmlSize(16382), "\x7F\xFE");
  EXPECT_EQ(EbmlSize(16383), absl::string_view("\x20\x3F\xFF", 3));
  EXPECT_EQ(EbmlSize(uint64_t{1} << 32), absl::string_view("\x09\0\0\0\0", 5));
  EXPECT_EQ(EbmlNumber(0xD7, 0), absl::string_view("\xD7\x81\0", 3));
  EXPECT_EQ(EbmlNumber(0x4287, 300), absl::string_view("\x42\x87\x82\x01\x2C", 5));
}

TEST(WebmTest, BeginsWithAllThatPlayersWantToKnow) {
  const std::string file = FileOf({.width = 9, .height = 7, .frames = 25});
  EXPECT_THAT(IdsOf(file), ElementsAre(kHead, kSegmentId));
  EXPECT_EQ(OneOf(file, {kHead, 0x4282}), "webm");
  EXPECT_THAT(IdsOf(OneOf(file, {kSegmentId})),
              ElementsAre(kSeekHeadId, kInfoId, kTracksId, kCuesId, kClusterId));
  const absl::string_view info = OneOf(file, {kSegmentId, kInfoId});
  EXPECT_EQ(NumberOf(OneOf(info, {0x2AD7B1})), 1'000'000u);  // times are milliseconds
  EXPECT_EQ(FloatOf(OneOf(info, {0x4489})), 3571);
  const absl::string_view track = OneOf(file, {kSegmentId, kTracksId, kEntryId});
  EXPECT_EQ(NumberOf(OneOf(track, {0xD7})), 1u);
  EXPECT_EQ(NumberOf(OneOf(track, {0x83})), 1u);  // video
  EXPECT_EQ(OneOf(track, {0x86}), "V_VP9");
  EXPECT_EQ(NumberOf(OneOf(track, {0x23E383})), 142'857'143u);  // ns a frame
  EXPECT_EQ(NumberOf(OneOf(track, {kVideoId, 0xB0})), 9u);
  EXPECT_EQ(NumberOf(OneOf(track, {kVideoId, 0xBA})), 7u);
}

// H.273: matrix of BT.601, limited range, transfer and primaries of sRGB; chroma between pixels.
TEST(WebmTest, SaysItsColours) {
  const std::string file = FileOf({.width = 9, .height = 7, .frames = 1});
  const absl::string_view colour = OneOf(file, {kSegmentId, kTracksId, kEntryId, kVideoId, 0x55B0});
  std::vector<std::pair<uint64_t, uint64_t>> told;
  for (const EbmlPart& part : ReadEbml(colour)) told.emplace_back(part.id, NumberOf(part.content));
  EXPECT_THAT(told, ::testing::UnorderedElementsAre(
                        std::pair(0x55B1, 6), std::pair(0x55B9, 1), std::pair(0x55BA, 13),
                        std::pair(0x55BB, 1), std::pair(0x55B2, 8), std::pair(0x55B3, 1),
                        std::pair(0x55B4, 1), std::pair(0x55B7, 2), std::pair(0x55B8, 2)));
}

TEST(WebmTest, ShowsEachFrameInItsTime) {
  for (const double fps : {1.0, 7.0, 30000.0 / 1001, 60.0, 1000.0}) {
    const VideoInfo info{.width = 2, .height = 2, .frames = 400, .fps = fps};
    const std::string file = FileOf(info);
    const std::vector<ReadBlock> blocks = ReadBlocks(file);
    ASSERT_EQ(blocks.size(), 400u);
    const int every = static_cast<int>(5 * fps);
    for (int i = 0; i < 400; ++i) {
      ASSERT_EQ(blocks[i].frame, absl::StrCat(i, "....")) << fps;
      ASSERT_EQ(blocks[i].time, std::lround(i * 1000 / fps)) << fps << ", " << i;
      ASSERT_EQ(blocks[i].is_key, i % every == 0) << fps << ", " << i;
    }
    EXPECT_EQ(FloatOf(OneOf(file, {kSegmentId, kInfoId, 0x4489})), std::lround(400'000 / fps));
  }
}

// Each cue is a key frame's time, and the place of the cluster that it begins.
TEST(WebmTest, IsFoundByItsCues) {
  const std::string file = FileOf({.width = 12, .height = 12, .frames = 200, .fps = 12});
  const absl::string_view segment = OneOf(file, {kSegmentId});
  std::vector<std::pair<uint64_t, uint64_t>> clusters, cues;  // time, place
  for (const EbmlPart& part : ReadEbml(segment)) {
    if (part.id != kClusterId) continue;
    clusters.emplace_back(NumberOf(OneOf(part.content, {0xE7})), part.offset);
    EXPECT_NE(AllOf(part.content, 0xA3).at(0)[3] & 0x80, 0);
  }
  for (const absl::string_view point : AllOf(OneOf(segment, {kCuesId}), 0xBB)) {
    EXPECT_EQ(NumberOf(OneOf(point, {0xB7, 0xF7})), 1u);
    cues.emplace_back(NumberOf(OneOf(point, {0xB3})), NumberOf(OneOf(point, {0xB7, 0xF1})));
  }
  EXPECT_EQ(cues, clusters);
  ASSERT_EQ(cues.size(), 4u);
  EXPECT_EQ(cues[3].first, 15'000u);
}

TEST(WebmTest, IsFoundByItsSeekHead) {
  VideoInfo info{.width = 12, .height = 12, .frames = 3};
  for (const bool has_tags : {false, true}) {
    info.parameters = has_tags ? "a star" : "";
    const std::string file = FileOf(info);
    const absl::string_view segment = OneOf(file, {kSegmentId});
    std::vector<std::pair<uint64_t, uint64_t>> told, parts;  // name, place
    for (const absl::string_view seek : AllOf(OneOf(segment, {kSeekHeadId}), 0x4DBB)) {
      told.emplace_back(NumberOf(OneOf(seek, {0x53AB})), NumberOf(OneOf(seek, {0x53AC})));
    }
    for (const EbmlPart& part : ReadEbml(segment)) {
      if (part.id != kSeekHeadId && part.id != kClusterId) parts.emplace_back(part.id, part.offset);
    }
    EXPECT_EQ(told, parts);
    EXPECT_EQ(told.size(), has_tags ? 4u : 3u);
  }
}

TEST(WebmTest, SaysWhatMadeIt) {
  const VideoInfo info{.width = 8, .height = 8, .frames = 1, .parameters = std::string("a\0b", 3)};
  const std::string file = FileOf(info);
  const absl::string_view tag = OneOf(file, {kSegmentId, kTagsId, 0x7373, 0x67C8});
  EXPECT_EQ(OneOf(tag, {0x45A3}), "COMMENT");
  EXPECT_EQ(OneOf(tag, {0x4487}),
            "a\xEF\xBF\xBD"
            "b");
}

TEST(WebmTest, GoesOnAfterAnEncoderThatFailed) {
  const VideoInfo info{.width = 9, .height = 7, .frames = 3};
  bool fails = true;
  VideoWriter writer =
      WriterOf(info,
               [&](const Vp9Video& video, absl::string_view planes,
                   BeforeFrame before_frame) -> absl::StatusOr<std::vector<Vp9Frame>> {
                 if (fails) return absl::InternalError("no codec");
                 return NumberFrames(video, planes, before_frame);
               });
  ASSERT_OK(writer.Add(NumberedFrames(info)));
  EXPECT_THAT(writer.Finish(), StatusIs(absl::StatusCode::kInternal, "no codec"));
  fails = false;
  EXPECT_EQ(writer.Finish().value(), FileOf(info));
}

}  // namespace
}  // namespace latentd::image
