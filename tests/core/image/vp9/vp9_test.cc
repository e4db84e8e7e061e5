// VP9 frames, alone and in a WebM, as libvpx's decoder shows them.
#include "core/image/vp9/vp9.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vpx/vp8dx.h>
#include <vpx/vpx_decoder.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "core/image/video/yuv.h"
#include "tests/core/image/video/ebml_reader.h"
#include "tests/core/image/video/videos.h"
#include "tests/support/status_matchers.h"

namespace latentd::image {
namespace {

using ::testing::Each;
using ::testing::Ge;
using ::testing::Gt;
using ::testing::Lt;
using ::testing::SizeIs;

// A frame as a player has it: its planes as AppendYuv lays them.
struct Shown {
  std::string planes;
  int width = 0, height = 0;
  vpx_color_space_t matrix = VPX_CS_UNKNOWN;
  vpx_color_range_t range = VPX_CR_FULL_RANGE;
};

void AppendPlane(const vpx_image_t& image, int plane, int width, int height, std::string& to) {
  for (int y = 0; y < height; ++y) {
    const unsigned char* row = image.planes[plane] + std::ptrdiff_t{y} * image.stride[plane];
    to.append(reinterpret_cast<const char*>(row), width);
  }
}

Shown ShownOf(const vpx_image_t& image) {
  EXPECT_EQ(image.fmt, VPX_IMG_FMT_I420);
  const int width = static_cast<int>(image.d_w), height = static_cast<int>(image.d_h);
  Shown shown{.width = width, .height = height, .matrix = image.cs, .range = image.range};
  AppendPlane(image, VPX_PLANE_Y, width, height, shown.planes);
  for (const int plane : {VPX_PLANE_U, VPX_PLANE_V}) {
    AppendPlane(image, plane, (width + 1) / 2, (height + 1) / 2, shown.planes);
  }
  return shown;
}

// By a decoder that has seen none before them.
std::vector<Shown> Decode(const std::vector<absl::string_view>& frames) {
  vpx_codec_ctx_t codec;
  EXPECT_EQ(vpx_codec_dec_init(&codec, vpx_codec_vp9_dx(), nullptr, 0), VPX_CODEC_OK);
  std::vector<Shown> shown;
  for (const absl::string_view frame : frames) {
    EXPECT_EQ(vpx_codec_decode(&codec, reinterpret_cast<const unsigned char*>(frame.data()),
                               static_cast<unsigned>(frame.size()), nullptr, 0),
              VPX_CODEC_OK)
        << vpx_codec_error_detail(&codec);
    vpx_codec_iter_t next = nullptr;
    while (const vpx_image_t* image = vpx_codec_get_frame(&codec, &next)) {
      shown.push_back(ShownOf(*image));
    }
  }
  EXPECT_EQ(vpx_codec_destroy(&codec), VPX_CODEC_OK);
  return shown;
}

bool IsKeyFrame(absl::string_view frame) {
  vpx_codec_stream_info_t info = {.sz = sizeof(info)};
  EXPECT_EQ(vpx_codec_peek_stream_info(vpx_codec_vp9_dx(),
                                       reinterpret_cast<const unsigned char*>(frame.data()),
                                       static_cast<unsigned>(frame.size()), &info),
            VPX_CODEC_OK);
  return info.is_kf != 0;
}

// Decibels; of equal ones 99.
double Psnr(absl::string_view a, absl::string_view b) {
  EXPECT_EQ(a.size(), b.size());
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<uint8_t>(a[i]) - static_cast<uint8_t>(b[i]);
    squares += difference * difference;
  }
  return squares == 0 ? 99 : 10 * std::log10(255 * 255 * static_cast<double>(a.size()) / squares);
}

std::string PlanesOf(const Image& frame) {
  std::string planes;
  AppendYuv(frame, planes);
  return planes;
}

// Smooth, and moving by a pixel a frame to the left.
Image MovingFrame(int number, int width, int height) {
  Image frame{width, height, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = number; x < width + number; ++x) {
      for (int channel = 0; channel < 3; ++channel) {
        const double wave = std::sin(x * 0.11 + channel) * std::cos(y * 0.07 - channel);
        frame.rgb.push_back(static_cast<uint8_t>(std::lround(127 + 100 * wave)));
      }
    }
  }
  return frame;
}

// A frame's error in the file of a video of moving frames; the worst.
struct Written {
  std::string file;
  double worst = 99;
};

Written Write(const VideoInfo& info) {
  const auto writer = MakeVideoWriter(VideoFormat::kWebm, info).value();
  for (int i = 0; i < info.frames; ++i) {
    EXPECT_OK(writer->Add(MovingFrame(i, info.width, info.height)));
  }
  Written written{.file = writer->Finish().value_or("")};
  std::vector<absl::string_view> frames;
  for (const ReadBlock& block : ReadBlocks(written.file)) frames.push_back(block.frame);
  const std::vector<Shown> shown = Decode(frames);
  EXPECT_EQ(shown.size(), static_cast<size_t>(info.frames));
  for (size_t i = 0; i < shown.size(); ++i) {
    EXPECT_EQ(shown[i].width, info.width);
    EXPECT_EQ(shown[i].height, info.height);
    EXPECT_EQ(shown[i].matrix, VPX_CS_BT_601);
    EXPECT_EQ(shown[i].range, VPX_CR_STUDIO_RANGE);
    const Image frame = MovingFrame(static_cast<int>(i), info.width, info.height);
    written.worst = std::min(written.worst, Psnr(shown[i].planes, PlanesOf(frame)));
  }
  return written;
}

TEST(Vp9Test, ShowsEachFrameOfTheVideo) {
  for (const auto& [width, height, frames] :
       {std::tuple{96, 64, 12}, {65, 47, 5}, {1, 1, 2}, {2, 9, 3}, {128, 1, 1}}) {
    const Written written = Write({.width = width, .height = height, .frames = frames});
    EXPECT_THAT(written.worst, Ge(38)) << width << "x" << height;
  }
}

TEST(Vp9Test, TakesTheQualityThatIsAskedFor) {
  size_t bytes = 0;
  double worst = 0;
  for (const int quality : {1, 30, 60, 90, 100}) {
    const Written written = Write({.width = 96, .height = 64, .frames = 12, .quality = quality});
    EXPECT_THAT(written.file.size(), Gt(bytes)) << quality;
    EXPECT_THAT(written.worst, Gt(worst)) << quality;
    bytes = written.file.size();
    worst = written.worst;
  }
  EXPECT_THAT(worst, Ge(48));
}

// Frames that say only how they differ from those before them are what makes files small.
TEST(Vp9Test, IsSmallerThanItsFramesAlone) {
  const VideoInfo info{.width = 96, .height = 64, .frames = 12};
  const std::string file = Write(info).file;
  const auto alone = MakeVideoWriter(VideoFormat::kWebp, info).value();
  for (int i = 0; i < info.frames; ++i) {
    EXPECT_OK(alone->Add(MovingFrame(i, info.width, info.height)));
  }
  EXPECT_THAT(file.size() * 2, Lt(alone->Finish().value().size()));
  std::vector<bool> keys;
  for (const ReadBlock& block : ReadBlocks(file)) keys.push_back(block.is_key);
  EXPECT_TRUE(keys[0]);
  keys.erase(keys.begin());
  EXPECT_THAT(keys, Each(false));
}

// A player that seeks begins with any of the key frames, of which there is one in 5 seconds.
TEST(Vp9Test, IsShownFromEachKeyFrameOn) {
  const VideoInfo info{.width = 32, .height = 32, .frames = 25, .fps = 2};
  const std::string file = Write(info).file;
  const std::vector<ReadBlock> blocks = ReadBlocks(file);
  ASSERT_EQ(blocks.size(), 25u);
  for (int i = 0; i < 25; ++i) {
    EXPECT_EQ(blocks[i].is_key, IsKeyFrame(blocks[i].frame)) << i;
    EXPECT_EQ(blocks[i].is_key, i % 10 == 0) << i;
    EXPECT_EQ(blocks[i].time, 500 * i);
  }
  const std::vector<Shown> shown = Decode({blocks[10].frame, blocks[11].frame});
  ASSERT_EQ(shown.size(), 2u);
  EXPECT_THAT(Psnr(shown[1].planes, PlanesOf(MovingFrame(11, 32, 32))), Ge(38));
}

TEST(Vp9Test, EncodesNoFrameAfterTheOneThatItIsToldToEndAt) {
  const std::string planes(6 * 5, '\0');
  int asked = 0, goes_on = 5;
  const auto before_frame = [&]() -> absl::Status {
    return ++asked <= goes_on ? absl::OkStatus() : absl::CancelledError("enough");
  };
  EXPECT_THAT(EncodeVp9({.width = 2, .height = 2}, planes, before_frame).value(), SizeIs(5));
  EXPECT_EQ(asked, 5);
  asked = 0, goes_on = 2;
  EXPECT_THAT(EncodeVp9({.width = 2, .height = 2}, planes, before_frame).status(),
              ::latentd::testing::StatusIs(absl::StatusCode::kCancelled, "enough"));
  EXPECT_EQ(asked, 3);
}

// Each takes memory by what the machine has free, which it does once it has had a frame.
TEST(Vp9Test, BeginsOnceTheOneBeforeHasHadAFrame) {
  const std::string planes(2 * 6, '\0');
  absl::Notification second_begins;
  std::thread second;
  int asked = 0;
  const auto before_frame = [&]() -> absl::Status {
    if (asked++ == 0) {
      second = std::thread([&] {
        const auto begin = [&]() -> absl::Status {
          if (!second_begins.HasBeenNotified()) second_begins.Notify();
          return absl::OkStatus();
        };
        EXPECT_OK(EncodeVp9({.width = 2, .height = 2}, planes, begin));
      });
      EXPECT_FALSE(second_begins.WaitForNotificationWithTimeout(absl::Milliseconds(200)));
    } else {
      EXPECT_TRUE(second_begins.WaitForNotificationWithTimeout(absl::Minutes(1)));
    }
    return absl::OkStatus();
  };
  EXPECT_OK(EncodeVp9({.width = 2, .height = 2}, planes, before_frame));
  EXPECT_EQ(asked, 2);
  second.join();
}

TEST(Vp9Test, SaysThatAVideoCannotBe) {
  const std::string planes(6, '\0');
  const absl::Status status =
      EncodeVp9({.width = 2, .height = 2, .rate = 0, .seconds = 1}, planes, GoOn).status();
  EXPECT_THAT(status, ::latentd::testing::StatusIs(absl::StatusCode::kInternal,
                                                   ::testing::HasSubstr("libvpx: ")));
}

}  // namespace
}  // namespace latentd::image
