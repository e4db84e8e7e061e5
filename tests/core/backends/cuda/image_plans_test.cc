#include "core/backends/cuda/binders/image_plans.h"

#include <gtest/gtest.h>

namespace latentd::backends::cuda {
namespace {

constexpr int64_t kElements = int64_t{1} << 31;  // more than cuDNN counts

TEST(ImagePlansTest, OneTakesAllImagesThatHaveFewerElements) {
  EXPECT_EQ(RowsOfPlan(1, 1), 1);
  EXPECT_EQ(RowsOfPlan(50, 9216 * 2560), 50);
  EXPECT_EQ(RowsOfPlan(7, (kElements - 1) / 7), 7);
}

TEST(ImagePlansTest, OtherwiseEachTakesNearlyAsMany) {
  EXPECT_EQ(RowsOfPlan(2, kElements / 2), 1);
  EXPECT_EQ(RowsOfPlan(8, kElements / 8), 4);
  // 25 frames of 1024x576 with 256 channels: 13 and 12.
  EXPECT_EQ(RowsOfPlan(25, int64_t{1024} * 576 * 256), 13);
}

TEST(ImagePlansTest, AnImageThatIsLargerIsNotCut) {
  EXPECT_EQ(RowsOfPlan(1, 3 * kElements), 1);
  EXPECT_EQ(RowsOfPlan(3, 3 * kElements), 1);
}

}  // namespace
}  // namespace latentd::backends::cuda
