#include "core/pipeline/picture/pixels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace latentd::pipeline {
namespace {

using image::Image;
using ::testing::ElementsAre;

// One row of grey pixels.
Image Row(const std::vector<uint8_t>& greys) {
  Image image{static_cast<int>(greys.size()), 1, {}};
  for (uint8_t grey : greys) image.rgb.insert(image.rgb.end(), 3, grey);
  return image;
}

std::vector<int> Greys(const Image& image) {
  std::vector<int> greys;
  for (size_t i = 0; i < image.rgb.size(); i += 3) greys.push_back(image.rgb[i]);
  return greys;
}

TEST(CentreOfTest, LeavesEqualMarginsOrTheWiderOneOnTheRight) {
  EXPECT_THAT(Greys(CentreOf(ToPixels(Row({1, 2, 3, 4})), {2, 1})), ElementsAre(2, 3));
  EXPECT_THAT(Greys(CentreOf(ToPixels(Row({1, 2, 3, 4, 5})), {2, 1})), ElementsAre(2, 3));
}

TEST(CentreOfTest, CutsRowsAsWellAsColumns) {
  Image image = Row({1, 2, 3, 4, 5, 6, 7, 8, 9});
  image.width = image.height = 3;
  EXPECT_THAT(Greys(CentreOf(ToPixels(image), {1, 3})), ElementsAre(2, 5, 8));
  EXPECT_THAT(Greys(CentreOf(ToPixels(image), {3, 1})), ElementsAre(4, 5, 6));
}

TEST(ExtendEdgesTest, RepeatsTheNearestPixel) {
  Image image = Row({1, 2, 3, 4});
  image.width = image.height = 2;
  EXPECT_THAT(Greys(ExtendEdges(image, {4, 3})), ElementsAre(1, 1, 2, 2,  //
                                                             3, 3, 4, 4,  //
                                                             3, 3, 4, 4));
}

TEST(ExtendEdgesTest, IsUndoneByTheCrop) {
  for (int width = 3; width < 9; ++width) {
    const Image image = Row({1, 2, 3});
    EXPECT_EQ(CentreOf(ToPixels(ExtendEdges(image, {width, 4})), {3, 1}), image);
  }
}

}  // namespace
}  // namespace latentd::pipeline
