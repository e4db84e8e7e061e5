// Animated WebP, as libwebp's own decoder of animations shows it.
#include "core/image/video/animated_webp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <webp/demux.h>

#include <memory>

#include "core/image/decode.h"
#include "core/image/encode.h"
#include "tests/core/image/video/videos.h"

namespace latentd::image {
namespace {

using ::testing::ElementsAre;
using ::testing::Le;

struct Shown {
  std::vector<Image> frames;
  std::vector<int> ends;  // milliseconds from the start
  WebPAnimInfo info = {};
};

WebPData DataOf(absl::string_view file) {
  return {reinterpret_cast<const uint8_t*>(file.data()), file.size()};
}

Image Opaque(const uint8_t* rgba, int width, int height) {
  Image image{width, height, {}};
  for (size_t i = 0; i < size_t{4} * width * height; i += 4) {
    image.rgb.insert(image.rgb.end(), rgba + i, rgba + i + 3);
    EXPECT_EQ(rgba[i + 3], 255);
  }
  return image;
}

Shown Show(absl::string_view file) {
  const WebPData data = DataOf(file);
  const std::unique_ptr<WebPAnimDecoder, void (*)(WebPAnimDecoder*)> decoder(
      WebPAnimDecoderNew(&data, nullptr), WebPAnimDecoderDelete);
  Shown shown;
  if (decoder == nullptr || WebPAnimDecoderGetInfo(decoder.get(), &shown.info) == 0) {
    ADD_FAILURE() << "libwebp cannot read the file";
    return shown;
  }
  while (WebPAnimDecoderHasMoreFrames(decoder.get()) != 0) {
    uint8_t* rgba = nullptr;
    int end = 0;
    if (WebPAnimDecoderGetNext(decoder.get(), &rgba, &end) == 0) {
      ADD_FAILURE() << "libwebp cannot read frame " << shown.frames.size();
      return shown;
    }
    shown.frames.push_back(Opaque(rgba, static_cast<int>(shown.info.canvas_width),
                                  static_cast<int>(shown.info.canvas_height)));
    shown.ends.push_back(end);
  }
  return shown;
}

std::string ExifIn(absl::string_view file) {
  const WebPData data = DataOf(file);
  const std::unique_ptr<WebPDemuxer, void (*)(WebPDemuxer*)> demuxer(WebPDemux(&data),
                                                                     WebPDemuxDelete);
  WebPChunkIterator chunk = {};
  if (WebPDemuxGetChunk(demuxer.get(), "EXIF", 1, &chunk) == 0) return "";
  std::string exif(reinterpret_cast<const char*>(chunk.chunk.bytes), chunk.chunk.size);
  WebPDemuxReleaseChunkIterator(&chunk);
  return exif;
}

// RIFF's own size, which readers forgive.
void ExpectWholeFile(absl::string_view file) {
  EXPECT_EQ(file.size() % 2, 0u);
  EXPECT_EQ(LittleEndianAt(file, 4, 4) + 8, file.size());
}

TEST(AnimatedWebpTest, ShowsEachFrameInItsTime) {
  const VideoInfo info{.width = 65, .height = 47, .frames = 8, .fps = 7};
  const std::string file = WriteVideo(VideoFormat::kWebp, info);
  ExpectWholeFile(file);
  const Shown shown = Show(file);
  EXPECT_EQ(shown.info.loop_count, 0u);  // for ever
  EXPECT_THAT(shown.ends, ElementsAre(143, 286, 429, 571, 714, 857, 1000, 1143));
  ASSERT_EQ(shown.frames.size(), 8u);
  for (int i = 0; i < info.frames; ++i) {
    EXPECT_THAT(LargestByteDifference(shown.frames[i], NumberedFrame(i, 65, 47)), Le(12)) << i;
  }
}

TEST(AnimatedWebpTest, ShowsAFrameAsTheStillImageOfThatQuality) {
  VideoInfo info{.width = 64, .height = 48, .frames = 2};
  for (const int quality : {1, 50, 100}) {
    info.quality = quality;
    const Shown shown = Show(WriteVideo(VideoFormat::kWebp, info));
    ASSERT_EQ(shown.frames.size(), 2u);
    ASSERT_OK_AND_ASSIGN(
        const std::string still,
        Encode(NumberedFrame(1, 64, 48), {.format = Format::kWebp, .quality = quality}));
    EXPECT_EQ(shown.frames[1], Decode(still).value()) << quality;
  }
}

TEST(AnimatedWebpTest, PutsEachFrameInThePlaceOfTheOneBefore) {
  const std::string file =
      WriteVideo(VideoFormat::kWebp, {.width = 65, .height = 47, .frames = 3, .fps = 7});
  const WebPData data = DataOf(file);
  const std::unique_ptr<WebPDemuxer, void (*)(WebPDemuxer*)> demuxer(WebPDemux(&data),
                                                                     WebPDemuxDelete);
  WebPIterator frame = {};
  for (int i = 1; i <= 3; ++i) {
    ASSERT_EQ(WebPDemuxGetFrame(demuxer.get(), i, &frame), 1);
    EXPECT_THAT((std::vector<int>{frame.num_frames, frame.x_offset, frame.y_offset, frame.width,
                                  frame.height, frame.duration, frame.complete}),
                ElementsAre(3, 0, 0, 65, 47, 143, 1));
    EXPECT_EQ(frame.blend_method, WEBP_MUX_NO_BLEND);
    EXPECT_EQ(frame.dispose_method, WEBP_MUX_DISPOSE_NONE);
  }
  WebPDemuxReleaseIterator(&frame);
}

TEST(AnimatedWebpTest, HoldsASingleFrameAndASinglePixel) {
  const Shown shown = Show(WriteVideo(VideoFormat::kWebp, {.width = 1, .height = 1, .frames = 1}));
  EXPECT_THAT(shown.ends, ElementsAre(143));
  ASSERT_EQ(shown.frames.size(), 1u);
  EXPECT_THAT(LargestByteDifference(shown.frames[0], NumberedFrame(0, 1, 1)), Le(12));
}

TEST(AnimatedWebpTest, KeepsFramesThatAreEqual) {
  const VideoInfo info{.width = 8, .height = 8, .frames = 3, .fps = 10};
  ASSERT_OK_AND_ASSIGN(const auto writer, MakeVideoWriter(VideoFormat::kWebp, info));
  ASSERT_OK(writer->Add(std::vector<Image>(3, Gradient(8, 8))));
  ASSERT_OK_AND_ASSIGN(const std::string file, writer->Finish());
  EXPECT_THAT(Show(file).ends, ElementsAre(100, 200, 300));
}

TEST(AnimatedWebpTest, KeepsTheLengthOfManyFrames) {
  for (const double fps : {30000.0 / 1001, 999.0}) {
    const VideoInfo info{.width = 8, .height = 8, .frames = 10000, .fps = fps};
    const std::string file = WriteVideo(VideoFormat::kWebp, info);
    ExpectWholeFile(file);
    const Shown shown = Show(file);
    ASSERT_EQ(shown.ends.size(), 10000u);
    EXPECT_NEAR(shown.ends.back(), 1e7 / fps, 0.51) << fps;
    EXPECT_NEAR(shown.ends[4999], 5e6 / fps, 0.51) << fps;
    EXPECT_THAT(LargestByteDifference(shown.frames[9999], NumberedFrame(9999, 8, 8)), Le(12));
  }
}

TEST(AnimatedWebpTest, ShowsItsFirstFrameToReadersOfStillImages) {
  const VideoInfo info{.width = 16, .height = 8, .frames = 2, .parameters = "a star"};
  ASSERT_OK_AND_ASSIGN(const Image first, Decode(WriteVideo(VideoFormat::kWebp, info)));
  EXPECT_THAT(LargestByteDifference(first, NumberedFrame(0, 16, 8)), Le(12));
}

TEST(AnimatedWebpTest, SaysWhatMadeIt) {
  VideoInfo info{.width = 8, .height = 8, .frames = 2};
  EXPECT_EQ(ExifIn(WriteVideo(VideoFormat::kWebp, info)), "");
  for (const absl::string_view text : {"even", "odd"}) {
    info.parameters = std::string(text);
    const std::string file = WriteVideo(VideoFormat::kWebp, info);
    ExpectWholeFile(file);
    std::string wide;
    for (const char letter : text) wide += {'\0', letter};
    EXPECT_THAT(ExifIn(file), ::testing::EndsWith(std::string("UNICODE\0", 8) + wide));
    EXPECT_EQ(Show(file).frames.size(), 2u);
  }
}

TEST(AnimatedWebpTest, StaysBelowFourGigabytesWithAllThatFollowsTheFrames) {
  const VideoInfo info{.width = 8, .height = 8, .frames = 1, .parameters = "a star"};
  const std::unique_ptr<VideoContainer> webp = MakeAnimatedWebp(info);
  std::string file;
  webp->Begin(file);
  webp->Append(0, webp->Encode(Gradient(8, 8)).value(), file);
  const size_t before = file.size();
  ASSERT_OK(webp->End(file, GoOn));
  EXPECT_EQ(webp->MostBytes() + (file.size() - before), 0xFFFFFFFEu);
}

}  // namespace
}  // namespace latentd::image
