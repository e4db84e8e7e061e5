#include "core/image/pixels/similarity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/status_matchers.h"

namespace latentd::image {
namespace {

using ::testing::HasSubstr;

// A picture of which `value(x, y, channel)` gives each byte.
template <typename Value>
Image Drawn(int width, int height, Value value) {
  Image image{.width = width, .height = height, .rgb = {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int channel = 0; channel < 3; ++channel) {
        image.rgb.push_back(static_cast<uint8_t>(value(x, y, channel)));
      }
    }
  }
  return image;
}

int Pattern(int x, int y, int channel) {
  return (3 * x * x + 29 * y + 5 * x * y * (channel + 1) + 40 * channel) % 256;
}

int PatternWithNoise(int x, int y, int channel) {
  const int noise = (131 * x + 57 * y + 83 * channel + 11 * x * y) % 256;
  return (3 * Pattern(x, y, channel) + noise) / 4;
}

int Stripes(int x, int, int) { return x % 4 < 2 ? 100 : 140; }
int Grey(int, int, int) { return 120; }

TEST(StructuralSimilarity, IsOneForEqualPictures) {
  const Image picture = Drawn(19, 14, Pattern);
  EXPECT_DOUBLE_EQ(*StructuralSimilarity(picture, picture), 1);
}

// skimage 0.26.0, with the arguments that the header names.
TEST(StructuralSimilarity, IsWhatSkimageComputes) {
  EXPECT_NEAR(*StructuralSimilarity(Drawn(19, 14, Pattern), Drawn(19, 14, PatternWithNoise)),
              0.9219468568921325, 1e-12);
}

TEST(StructuralSimilarity, IsThatOfTheMeansWhereNothingVaries) {
  const Image dark = Drawn(11, 11, [](int, int, int) { return 50; });
  const Image light = Drawn(11, 11, [](int, int, int) { return 100; });
  const double c1 = 2.55 * 2.55;
  EXPECT_NEAR(*StructuralSimilarity(dark, light), (2 * 50 * 100 + c1) / (50 * 50 + 100 * 100 + c1),
              1e-12);
}

TEST(StructuralSimilarity, IsTheMeanOfTheChannels) {
  const auto one_differs = [](int x, int y, int channel) {
    return channel == 1 ? Grey(x, y, channel) : Stripes(x, y, channel);
  };
  const Image stripes = Drawn(16, 16, Stripes);
  const double of_all = *StructuralSimilarity(stripes, Drawn(16, 16, Grey));
  EXPECT_NEAR(*StructuralSimilarity(stripes, Drawn(16, 16, one_differs)), (2 + of_all) / 3, 1e-12);
}

// Each byte is 20 off in both: once all alike, once so that nothing of the stripes is left.
TEST(StructuralSimilarity, SeesLostStructureRatherThanAnotherBrightness) {
  const auto lighter = [](int x, int y, int channel) { return Stripes(x, y, channel) + 20; };
  const Image stripes = Drawn(16, 16, Stripes);
  EXPECT_GT(*StructuralSimilarity(stripes, Drawn(16, 16, lighter)), 0.98);
  EXPECT_LT(*StructuralSimilarity(stripes, Drawn(16, 16, Grey)), 0.2);
}

TEST(StructuralSimilarity, IsNegativeForTheOppositeStructure) {
  const auto opposite = [](int x, int y, int channel) { return 240 - Stripes(x, y, channel); };
  EXPECT_LT(*StructuralSimilarity(Drawn(16, 16, Stripes), Drawn(16, 16, opposite)), -0.5);
}

// The picture's corner is in the corner of one window, where it weighs next to nothing.
TEST(StructuralSimilarity, CountsWholeWindowsOnly) {
  const auto with_corner = [](int x, int y, int channel) {
    return x == 0 && y == 0 ? 255 : Stripes(x, y, channel);
  };
  EXPECT_GT(*StructuralSimilarity(Drawn(16, 16, Stripes), Drawn(16, 16, with_corner)), 0.999);
}

// 10 log10(255^2 / 25), as skimage's peak_signal_noise_ratio with data_range=255 has it.
TEST(PeakSignalToNoise, IsOfTheMeanSquaredDifference) {
  const Image dark = Drawn(4, 3, [](int, int, int) { return 50; });
  const Image light = Drawn(4, 3, [](int, int, int channel) { return channel == 0 ? 55 : 45; });
  EXPECT_NEAR(*PeakSignalToNoise(dark, light), 34.151404, 1e-6);
  EXPECT_EQ(*PeakSignalToNoise(dark, dark), std::numeric_limits<double>::infinity());
  EXPECT_THAT(PeakSignalToNoise(dark, Drawn(3, 4, Grey)),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 x 4")));
}

TEST(StructuralSimilarity, NeedsPicturesOfOneSizeThatHoldAWindow) {
  const Image wide = Drawn(12, 11, Grey);
  EXPECT_THAT(StructuralSimilarity(wide, Drawn(11, 12, Grey)),
              testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("11 x 12 instead of 12 x 11")));
  for (const Image& small : {Drawn(10, 11, Grey), Drawn(11, 10, Grey)}) {
    EXPECT_THAT(StructuralSimilarity(small, small),
                testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no window")));
  }
}

}  // namespace
}  // namespace latentd::image
