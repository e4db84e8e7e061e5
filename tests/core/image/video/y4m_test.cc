// YUV4MPEG2, by a reader that works in floating point.
#include "core/image/video/y4m.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/core/image/video/videos.h"

namespace latentd::image {
namespace {

using ::testing::ElementsAre;
using ::testing::Le;

struct Planes {
  std::vector<int> luma, blue, red;
};

std::vector<int> TakePlane(absl::string_view& file, size_t bytes) {
  EXPECT_GE(file.size(), bytes);
  std::vector<int> plane;
  for (const char byte : file.substr(0, bytes)) plane.push_back(static_cast<uint8_t>(byte));
  file.remove_prefix(bytes);
  return plane;
}

absl::string_view TakeHeader(absl::string_view& file) {
  const absl::string_view header = file.substr(0, file.find('\n'));
  file.remove_prefix(header.size() + 1);
  return header;
}

std::vector<Planes> ReadPlanes(absl::string_view file, int width, int height) {
  TakeHeader(file);
  const size_t chroma = size_t{1} * ((width + 1) / 2) * ((height + 1) / 2);
  std::vector<Planes> frames;
  while (absl::ConsumePrefix(&file, "FRAME\n")) {
    Planes planes;
    planes.luma = TakePlane(file, size_t{1} * width * height);
    planes.blue = TakePlane(file, chroma);
    planes.red = TakePlane(file, chroma);
    frames.push_back(planes);
  }
  EXPECT_EQ(file, "");
  return frames;
}

uint8_t ToByte(double value) {
  return static_cast<uint8_t>(std::lround(std::clamp(value, 0.0, 1.0) * 255));
}

// By the formulas of BT.601, each chroma value for all of its four pixels.
Image ToImage(const Planes& planes, int width, int height) {
  Image image{width, height, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int at = y / 2 * ((width + 1) / 2) + x / 2;
      const double luma = (planes.luma[y * width + x] - 16) / 219.0;
      const double blue = luma + 1.772 * (planes.blue[at] - 128) / 224.0;
      const double red = luma + 1.402 * (planes.red[at] - 128) / 224.0;
      const double green = (luma - 0.299 * red - 0.114 * blue) / 0.587;
      for (const double value : {red, green, blue}) image.rgb.push_back(ToByte(value));
    }
  }
  return image;
}

Image Flat(int width, int height, std::vector<uint8_t> color) {
  Image image{width, height, {}};
  for (int i = 0; i < width * height; ++i) {
    image.rgb.insert(image.rgb.end(), color.begin(), color.end());
  }
  return image;
}

std::string WriteFrame(const Image& image) {
  const auto writer = MakeVideoWriter(VideoFormat::kY4m,
                                      {.width = image.width, .height = image.height, .frames = 1});
  EXPECT_OK(writer);
  EXPECT_OK((*writer)->Add(image));
  return (*writer)->Finish().value_or("");
}

TEST(Y4mTest, SaysWhatItHolds) {
  const std::string file = WriteVideo(
      VideoFormat::kY4m, {.width = 65, .height = 47, .frames = 2, .fps = 30000.0 / 1001});
  absl::string_view rest = file;
  const absl::string_view header = TakeHeader(rest);
  EXPECT_THAT(std::vector<std::string>(absl::StrSplit(header, ' ')),
              ElementsAre("YUV4MPEG2", "W65", "H47", "F30000:1001", "Ip", "A1:1", "C420jpeg",
                          "XCOLORRANGE=LIMITED"));
  EXPECT_EQ(rest.size(), 2 * (6 + 65 * 47 + 2 * 33 * 24));
}

// Some readers take no more.
TEST(Y4mTest, HasAHeaderOf80BytesAtMost) {
  const VideoInfo info{.width = 8192,
                       .height = 2048,
                       .frames = 1,
                       .fps = 65535.0 / 65534,
                       .parameters = std::string(200, 'x')};
  std::string longest;
  MakeY4m(info)->Begin(longest);
  EXPECT_THAT(longest.size(), Le(80u)) << longest;
  EXPECT_THAT(longest, ::testing::HasSubstr("W8192 H2048 F65535:65534 "));
}

TEST(Y4mTest, HoldsEachFrame) {
  const VideoInfo info{.width = 64, .height = 48, .frames = 8};
  const std::vector<Planes> frames =
      ReadPlanes(WriteVideo(VideoFormat::kY4m, info), info.width, info.height);
  ASSERT_EQ(frames.size(), 8u);
  for (int i = 0; i < info.frames; ++i) {
    EXPECT_THAT(LargestByteDifference(ToImage(frames[i], 64, 48), NumberedFrame(i, 64, 48)), Le(4))
        << i;
  }
}

// Luma, blue and red of colours that BT.601 has in its tables.
TEST(Y4mTest, IsBt601OfLimitedRange) {
  const std::pair<std::vector<uint8_t>, std::vector<int>> kColors[] = {
      {{0, 0, 0}, {16, 128, 128}},       {{255, 255, 255}, {235, 128, 128}},
      {{255, 0, 0}, {81, 90, 240}},      {{0, 255, 0}, {145, 54, 34}},
      {{0, 0, 255}, {41, 240, 110}},     {{255, 255, 0}, {210, 16, 146}},
      {{0, 255, 255}, {170, 166, 16}},   {{255, 0, 255}, {106, 202, 222}},
      {{128, 128, 128}, {126, 128, 128}}};
  for (const auto& [color, expected] : kColors) {
    const std::vector<Planes> frames = ReadPlanes(WriteFrame(Flat(2, 2, color)), 2, 2);
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_THAT(frames[0].luma, ::testing::Each(expected[0])) << ::testing::PrintToString(color);
    EXPECT_THAT(frames[0].blue, ElementsAre(expected[1])) << ::testing::PrintToString(color);
    EXPECT_THAT(frames[0].red, ElementsAre(expected[2])) << ::testing::PrintToString(color);
  }
}

TEST(Y4mTest, IsNearTheFormulasForEveryColor) {
  for (int red = 0; red < 256; red += 17) {
    for (int green = 0; green < 256; green += 15) {
      for (int blue = 0; blue < 256; blue += 51) {
        const Image image = Flat(
            1, 1,
            {static_cast<uint8_t>(red), static_cast<uint8_t>(green), static_cast<uint8_t>(blue)});
        const std::vector<Planes> frames = ReadPlanes(WriteFrame(image), 1, 1);
        ASSERT_EQ(frames.size(), 1u);
        ASSERT_THAT(LargestByteDifference(ToImage(frames[0], 1, 1), image), Le(3));
      }
    }
  }
}

// Three columns and rows: four blocks of 4, 2, 2 and 1 pixels, each of another colour.
TEST(Y4mTest, GivesOddColumnsAndRowsTheirOwnChroma) {
  const std::vector<uint8_t> colors[] = {{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {255, 255, 255}};
  Image image{3, 3, {}};
  for (int y = 0; y < 3; ++y) {
    for (int x = 0; x < 3; ++x) {
      const std::vector<uint8_t>& color = colors[y / 2 * 2 + x / 2];
      image.rgb.insert(image.rgb.end(), color.begin(), color.end());
    }
  }
  const std::vector<Planes> frames = ReadPlanes(WriteFrame(image), 3, 3);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_THAT(frames[0].luma, ElementsAre(81, 81, 145, 81, 81, 145, 41, 41, 235));
  EXPECT_THAT(frames[0].blue, ElementsAre(90, 54, 240, 128));
  EXPECT_THAT(frames[0].red, ElementsAre(240, 34, 110, 128));
}

// Red, green, blue and white side by side have the chroma of their mean.
TEST(Y4mTest, HalvesChromaByTheMean) {
  const std::vector<Planes> frames =
      ReadPlanes(WriteFrame({2, 2, {255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255}}), 2, 2);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_THAT(frames[0].luma, ElementsAre(81, 145, 41, 235));
  EXPECT_THAT(frames[0].blue, ElementsAre(128));  // (90 + 54 + 240 + 128) / 4
  EXPECT_THAT(frames[0].red, ElementsAre(128));   // (240 + 34 + 110 + 128) / 4
}

TEST(Y4mTest, HoldsManyFrames) {
  const std::string file =
      WriteVideo(VideoFormat::kY4m, {.width = 8, .height = 8, .frames = 10000});
  const std::vector<Planes> frames = ReadPlanes(file, 8, 8);
  ASSERT_EQ(frames.size(), 10000u);
  EXPECT_THAT(LargestByteDifference(ToImage(frames[9999], 8, 8), NumberedFrame(9999, 8, 8)), Le(8));
}

}  // namespace
}  // namespace latentd::image
