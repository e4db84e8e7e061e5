#include "core/image/pixels/resize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "core/image/decode.h"
#include "tests/core/image/pictures.h"
#include "tests/support/status_matchers.h"

namespace latentd::image {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class PillowSizes : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(PillowSizes, HaveThePixelsThatPillowMakes) {
  const auto [width, height] = GetParam();
  ASSERT_OK_AND_ASSIGN(const Image image, Decode(ReadPicture("lanczos.png")));
  ASSERT_OK_AND_ASSIGN(const Image resized, ResizeLanczos(image, width, height));
  EXPECT_EQ(resized.width, width);
  EXPECT_EQ(resized.height, height);
  ASSERT_EQ(resized.rgb.size(), size_t{3} * width * height);
  EXPECT_EQ(resized.rgb, ReadRgb(absl::StrCat("lanczos-", width, "x", height, ".rgb")));
}

INSTANTIATE_TEST_SUITE_P(All, PillowSizes,
                         ::testing::Values(std::pair{64, 48}, std::pair{16, 16}, std::pair{37, 40},
                                           std::pair{20, 23}, std::pair{37, 23}, std::pair{8, 8},
                                           std::pair{111, 5}, std::pair{3, 69}, std::pair{1, 1},
                                           std::pair{36, 24}));

class PillowBicubicSizes : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(PillowBicubicSizes, HaveThePixelsThatPillowMakes) {
  const auto [width, height] = GetParam();
  ASSERT_OK_AND_ASSIGN(const Image image, Decode(ReadPicture("lanczos.png")));
  ASSERT_OK_AND_ASSIGN(const Image resized, ResizeBicubic(image, width, height));
  EXPECT_EQ(resized.rgb, ReadRgb(absl::StrCat("bicubic-", width, "x", height, ".rgb")));
}

INSTANTIATE_TEST_SUITE_P(All, PillowBicubicSizes,
                         ::testing::Values(std::pair{64, 48}, std::pair{16, 16}, std::pair{37, 40},
                                           std::pair{8, 8}, std::pair{3, 69}, std::pair{111, 5}));

TEST(ResizeLanczosTest, KeepsOneColour) {
  const Image grey{7, 5, std::vector<uint8_t>(105, 77)};
  ASSERT_OK_AND_ASSIGN(const Image resized, ResizeLanczos(grey, 40, 3));
  EXPECT_EQ(resized.rgb, std::vector<uint8_t>(360, 77));
}

TEST(ResizeLanczosTest, RefusesASizeThatNobodyCanHold) {
  const Image image = Gradient(4, 4);
  EXPECT_THAT(ResizeLanczos(image, 0, 4), StatusIs(kInvalid, HasSubstr("0x4 pixels")));
  EXPECT_THAT(ResizeLanczos(image, 4, -1), StatusIs(kInvalid, HasSubstr("4x-1 pixels")));
  EXPECT_THAT(ResizeLanczos(image, 8193, 1), StatusIs(kInvalid, HasSubstr("at most 8192 a side")));
  EXPECT_THAT(ResizeLanczos(image, 8192, 8192), StatusIs(kInvalid, HasSubstr("16777216 in all")));
}

TEST(ResizeLanczosTest, RefusesAPictureWithoutItsPixels) {
  EXPECT_THAT(ResizeLanczos({4, 4, {1}}, 2, 2), StatusIs(kInvalid, HasSubstr("4x4 has 1 bytes")));
}

}  // namespace
}  // namespace latentd::image
