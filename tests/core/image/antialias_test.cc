#include "core/image/pixels/antialias.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/image/decode.h"
#include "tests/core/image/pictures.h"
#include "tests/support/status_matchers.h"

namespace latentd::image {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::Each;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using ::testing::SizeIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

std::vector<float> ReadFloats(const std::string& name) {
  const std::string bytes = ReadPicture(name);
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

class AntialiasedSizes : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(AntialiasedSizes, HaveTheValuesThatDiffusersMakes) {
  const auto [width, height] = GetParam();
  ASSERT_OK_AND_ASSIGN(const Image image, Decode(ReadPicture("lanczos.png")));
  ASSERT_OK_AND_ASSIGN(const std::vector<float> resized, ResizeAntialiased(image, width, height));
  ASSERT_THAT(resized, SizeIs(size_t{3} * width * height));
  EXPECT_THAT(resized, Pointwise(FloatNear(5e-6f), ReadFloats(absl::StrCat("antialiased-", width,
                                                                           "x", height, ".f32"))));
}

INSTANTIATE_TEST_SUITE_P(All, AntialiasedSizes,
                         ::testing::Values(std::pair{16, 16}, std::pair{5, 3}, std::pair{37, 23},
                                           std::pair{64, 48}, std::pair{12, 40}, std::pair{50, 7},
                                           std::pair{2, 2}));

// As make_antialiased.py makes them.
constexpr int kEncodedSide = 224;
constexpr int kRows[] = {0, 100, 223};

Image Rings(int width, int height) {
  Image image{width, height, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        const int ring = (x * x + 3 * y * y) / (40 + 8 * c) + 5 * x;
        image.rgb.push_back(static_cast<uint8_t>(ring % 256));
      }
    }
  }
  return image;
}

// Values of kRows in each plane.
std::vector<float> RowsOf(const std::vector<float>& planes) {
  std::vector<float> rows;
  for (int plane = 0; plane < 3; ++plane) {
    for (const int row : kRows) {
      const auto begin = planes.begin() + (plane * kEncodedSide + row) * kEncodedSide;
      rows.insert(rows.end(), begin, begin + kEncodedSide);
    }
  }
  return rows;
}

class ImagesOfVideos : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(ImagesOfVideos, HaveTheValuesThatDiffusersMakesForTheEncoder) {
  const auto [width, height] = GetParam();
  ASSERT_OK_AND_ASSIGN(const std::vector<float> resized,
                       ResizeAntialiased(Rings(width, height), kEncodedSide, kEncodedSide));
  ASSERT_THAT(resized, SizeIs(size_t{3} * kEncodedSide * kEncodedSide));
  EXPECT_THAT(RowsOf(resized),
              Pointwise(FloatNear(5e-6f),
                        ReadFloats(absl::StrCat("antialiased-from-", width, "x", height, ".f32"))));
}

INSTANTIATE_TEST_SUITE_P(All, ImagesOfVideos,
                         ::testing::Values(std::pair{640, 360}, std::pair{1024, 576},
                                           std::pair{224, 224}, std::pair{100, 50},
                                           std::pair{3000, 2000}, std::pair{333, 517}));

TEST(ResizeAntialiasedTest, KeepsOneColour) {
  const Image white{900, 2, std::vector<uint8_t>(5400, 255)};
  ASSERT_OK_AND_ASSIGN(const std::vector<float> resized, ResizeAntialiased(white, 20, 30));
  EXPECT_THAT(resized, Each(FloatNear(1, 1e-6)));
}

TEST(ResizeAntialiasedTest, RefusesAnImageOfOnePixelASide) {
  EXPECT_THAT(ResizeAntialiased(Gradient(1, 9), 4, 4), StatusIs(kInvalid, HasSubstr("1 x 9")));
  EXPECT_THAT(ResizeAntialiased(Gradient(9, 1), 4, 4), StatusIs(kInvalid, HasSubstr("from 2 to")));
}

TEST(ResizeAntialiasedTest, RefusesASizeThatIsNone) {
  EXPECT_THAT(ResizeAntialiased(Gradient(4, 4), 1, 4), StatusIs(kInvalid, HasSubstr("1 x 4")));
  EXPECT_THAT(ResizeAntialiased(Gradient(4, 4), 4, 8193), StatusIs(kInvalid, HasSubstr("8193")));
}

TEST(ResizeAntialiasedTest, RefusesAPictureWithoutItsPixels) {
  EXPECT_THAT(ResizeAntialiased({4, 4, {1}}, 2, 2),
              StatusIs(kInvalid, HasSubstr("4x4 has 1 bytes")));
}

}  // namespace
}  // namespace latentd::image
