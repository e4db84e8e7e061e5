#include "core/pipeline/picture/mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/device/host_device.h"
#include "core/image/encode.h"
#include "core/image/pixels/blur.h"
#include "core/image/pixels/passed_over.h"
#include "tests/support/status_matchers.h"

namespace latentd::pipeline {
namespace {

using ::testing::ElementsAre;

using Colour = std::vector<uint8_t>;

image::Image Plain(int side, const Colour& colour) {
  image::Image image{side, side, {}};
  for (int i = 0; i < side * side; ++i) {
    image.rgb.insert(image.rgb.end(), colour.begin(), colour.end());
  }
  return image;
}

bool IsDrawnOver(const Colour& colour) {
  return MaskOf(Plain(8, colour), 8).latents.as<float>()[0] == 1;
}

TEST(MaskTest, CutsGreysAtTheMiddle) {
  EXPECT_TRUE(IsDrawnOver({255, 255, 255}));
  EXPECT_TRUE(IsDrawnOver({128, 128, 128}));
  EXPECT_FALSE(IsDrawnOver({127, 127, 127}));
  EXPECT_FALSE(IsDrawnOver({0, 0, 0}));
}

// The least green that Pillow's convert("L") makes 128, beside no red and no blue, and so on.
TEST(MaskTest, WeighsColoursAsPillowDoes) {
  EXPECT_TRUE(IsDrawnOver({0, 218, 0}));
  EXPECT_FALSE(IsDrawnOver({0, 217, 0}));
  EXPECT_FALSE(IsDrawnOver({255, 0, 255}));
  EXPECT_TRUE(IsDrawnOver({255, 88, 0}));
  EXPECT_FALSE(IsDrawnOver({255, 87, 0}));
}

// The four pixels in the middle of 8 x 8, as torch resizes to an eighth without smoothing.
TEST(MaskTest, StaysForAShareThatTheGreysInTheMiddleSay) {
  image::Image image = Plain(16, {0, 0, 0});
  const auto paint = [&image](int x, int y, uint8_t grey) {
    for (int c = 0; c < 3; ++c) image.rgb[3 * (16 * y + x) + c] = grey;
  };
  for (const int x : {11, 12}) {
    for (const int y : {3, 4}) paint(x, y, 255);
  }
  paint(3, 11, 51);  // one of four
  paint(8, 8, 255);  // a corner, which counts for nothing
  const Mask mask = MaskOf(image, 8);
  EXPECT_THAT(mask.stays, ElementsAre(1, 0, 0.95f, 1));
  const auto drawn = [&](float passed) {
    const absl::StatusOr<device::Buffer> at = MaskAt(mask, passed, device::Host());
    const absl::Span<const float> values = at.value().as<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  EXPECT_THAT(drawn(0), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(drawn(0.96f), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(drawn(1), ElementsAre(1, 1, 1, 1));
}

TEST(MaskTest, TakesTheUpperLeftPixelOfALatent) {
  image::Image image = Plain(16, {0, 0, 0});
  const auto paint = [&image](int x, int y) {
    for (int c = 0; c < 3; ++c) image.rgb[3 * (16 * y + x) + c] = 255;
  };
  paint(8, 0);   // the corner of the second latent
  paint(7, 15);  // a corner of the third, which counts for nothing
  const Mask mask = MaskOf(image, 8);
  EXPECT_EQ(mask.latents.shape(), device::Shape({1, 1, 2, 2}));
  EXPECT_THAT(mask.latents.as<float>(), ElementsAre(0, 1, 0, 0));
  EXPECT_EQ(mask.keep.shape(), device::Shape({1, 16, 16, 1}));
  const auto keep = mask.keep.as<uint8_t>();
  EXPECT_EQ(keep[8], 0);
  EXPECT_EQ(keep[15 * 16 + 7], 0);
  EXPECT_EQ(keep[9], 1);
}

TEST(MaskTest, IsBlurredInItsOwnSize) {
  image::Image image = Plain(9, {0, 0, 0});
  image.rgb[3 * (9 * 4 + 4)] = image.rgb[3 * (9 * 4 + 4) + 1] = 255;
  const std::string file = image::Encode(image, {}).value();
  image::PassedOver passed_over;
  ASSERT_OK_AND_ASSIGN(const image::Image sharp, DecodeMask(file, 0, passed_over));
  EXPECT_EQ(sharp, image);
  ASSERT_OK_AND_ASSIGN(const image::Image blurred, DecodeMask(file, 2, passed_over));
  ASSERT_OK_AND_ASSIGN(const image::Image expected, image::GaussianBlur(image, 2));
  EXPECT_EQ(blurred, expected);
  EXPECT_NE(blurred, sharp);
}

TEST(MaskTest, NamesTheFieldOfAFileThatCannotBeRead) {
  image::PassedOver passed_over;
  const absl::Status status = DecodeMask("no image", 0, passed_over).status();
  ASSERT_EQ(GetFieldViolations(status).size(), 1u);
  EXPECT_EQ(GetFieldViolations(status)[0].field, "mask_image");
}

}  // namespace
}  // namespace latentd::pipeline
