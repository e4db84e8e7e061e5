// Masks and parts of images around inpainting, beside the bytes that diffusers makes with Pillow
// (make_inpainting.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/image/decode.h"
#include "core/image/pixels/blur.h"
#include "core/image/pixels/crop_region.h"
#include "core/image/pixels/fit.h"
#include "core/image/pixels/grey.h"
#include "core/image/pixels/overlay.h"
#include "tests/core/image/pictures.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::image {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::HasSubstr;

constexpr auto kInvalidHere = absl::StatusCode::kInvalidArgument;
constexpr int kSide = 64;  // pictures' of overlays

Image Picture() { return Decode(ReadPicture("lanczos.png")).value(); }
Image Square(const std::string& name) { return {kSide, kSide, ReadRgb(name)}; }

class BlurRadii : public ::testing::TestWithParam<int> {};

TEST_P(BlurRadii, HaveThePixelsThatPillowMakes) {
  ASSERT_OK_AND_ASSIGN(const Image blurred, GaussianBlur(Picture(), GetParam()));
  EXPECT_EQ(blurred.rgb, ReadRgb(absl::StrCat("blur-", GetParam(), ".rgb")));
}

INSTANTIATE_TEST_SUITE_P(All, BlurRadii, ::testing::Values(1, 2, 4, 9, 33, 200));

TEST(GaussianBlurTest, OfNoRadiusIsACopy) {
  ASSERT_OK_AND_ASSIGN(const Image blurred, GaussianBlur(Picture(), 0));
  EXPECT_EQ(blurred, Picture());
}

TEST(GaussianBlurTest, RefusesARadiusOutOfRange) {
  EXPECT_THAT(GaussianBlur(Picture(), -1), StatusIs(kInvalidHere, HasSubstr("is -1")));
  EXPECT_THAT(GaussianBlur(Picture(), 8193), StatusIs(kInvalidHere, HasSubstr("0 to 8192")));
  EXPECT_THAT(GaussianBlur({4, 4, {1}}, 1), StatusIs(kInvalidHere, HasSubstr("4x4 has 1 bytes")));
}

class FittedSizes : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(FittedSizes, HaveThePixelsThatDiffusersMakes) {
  const auto [width, height] = GetParam();
  const std::string size = absl::StrCat(width, "x", height, ".rgb");
  ASSERT_OK_AND_ASSIGN(const Image filled, ResizeToFill(Picture(), width, height));
  EXPECT_EQ(filled.rgb, ReadRgb(absl::StrCat("fill-", size)));
  ASSERT_OK_AND_ASSIGN(const Image covered, ResizeToCover(Picture(), width, height));
  EXPECT_EQ(covered.rgb, ReadRgb(absl::StrCat("cover-", size)));
}

INSTANTIATE_TEST_SUITE_P(All, FittedSizes,
                         ::testing::Values(std::pair{64, 64}, std::pair{64, 16}, std::pair{24, 80},
                                           std::pair{37, 23}, std::pair{120, 24},
                                           std::pair{16, 8}));

TEST(FitTest, RefusesAnImageThatWouldVanish) {
  const Image line = Gradient(2000, 1);
  EXPECT_THAT(ResizeToFill(line, 64, 64), StatusIs(kInvalidHere, HasSubstr("too narrow")));
  EXPECT_THAT(ResizeToFill(Picture(), 0, 64), StatusIs(kInvalidHere, HasSubstr("0x64")));
}

TEST(FitTest, CropsOneBox) {
  const Image image = Gradient(5, 4);
  const Image cropped = Crop(image, {1, 2, 4, 4});
  ASSERT_EQ(std::pair(cropped.width, cropped.height), std::pair(3, 2));
  for (int y = 0; y < 2; ++y) {
    for (int i = 0; i < 9; ++i) {
      EXPECT_EQ(cropped.rgb[9 * y + i], image.rgb[15 * (y + 2) + 3 + i]) << y << " " << i;
    }
  }
}

TEST(CropRegionTest, IsWhatDiffusersFinds) {
  const std::string path = ::latentd::testing::SourcePath("tests/core/image/crop_regions.json");
  std::ifstream file(path);
  const nlohmann::json cases = nlohmann::json::parse(file);
  ASSERT_FALSE(cases.empty());
  for (const nlohmann::json& one : cases) {
    const Dimensions size = {one["size"][0], one["size"][1]};
    const Dimensions drawn = {one["drawn"][0], one["drawn"][1]};
    const Box box = {one["box"][0], one["box"][1], one["box"][2], one["box"][3]};
    const Box wanted = {one["region"][0], one["region"][1], one["region"][2], one["region"][3]};
    std::vector<uint8_t> mask(size_t{1} * size.width * size.height);
    for (int y = box.top; y < box.bottom; ++y) {
      for (int x = box.left; x < box.right; ++x) mask[size_t{1} * y * size.width + x] = 1;
    }
    EXPECT_EQ(CropRegion(mask, size, drawn, one["padding"]), wanted) << one.dump();
  }
}

TEST(CropRegionTest, OfABlackMaskIsNone) {
  EXPECT_EQ(CropRegion(std::vector<uint8_t>(12), {4, 3}, {64, 64}, 100), std::nullopt);
}

TEST(OverlayTest, HasThePixelsThatDiffusersMakes) {
  const std::vector<uint8_t> mask = GreysOf(Square("mask.rgb"));
  const Overlay overlay(Square("kept.rgb"), mask, {0, 0, kSide, kSide});
  ASSERT_OK_AND_ASSIGN(const Image whole, overlay.Over(Square("drawn.rgb")));
  EXPECT_EQ(whole, Square("overlay.rgb"));
}

TEST(OverlayTest, PutsWhatIsDrawnIntoItsBox) {
  const Box box = {9, 20, 50, 61};
  const Overlay overlay(Square("kept.rgb"), GreysOf(Square("mask.rgb")), box);
  ASSERT_OK_AND_ASSIGN(const Image whole, overlay.Over(Square("drawn.rgb")));
  EXPECT_EQ(whole, Square("overlay-cropped.rgb"));
  EXPECT_EQ(overlay.bytes(), size_t{3} * kSide * kSide + size_t{41} * 41);
}

}  // namespace
}  // namespace latentd::image
