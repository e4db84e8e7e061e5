#include "core/image/video/frame_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace latentd::image {
namespace {

TEST(FrameRateTest, IsTheRatioThatWasMeant) {
  EXPECT_EQ(FrameRateOf(7), (FrameRate{7, 1}));
  EXPECT_EQ(FrameRateOf(1), (FrameRate{1, 1}));
  EXPECT_EQ(FrameRateOf(1000), (FrameRate{1000, 1}));
  EXPECT_EQ(FrameRateOf(12.5), (FrameRate{25, 2}));
  EXPECT_EQ(FrameRateOf(29.97), (FrameRate{2997, 100}));
  EXPECT_EQ(FrameRateOf(30000.0 / 1001), (FrameRate{30000, 1001}));
  EXPECT_EQ(FrameRateOf(24000.0 / 1001), (FrameRate{24000, 1001}));
  EXPECT_EQ(FrameRateOf(65535.0 / 65534), (FrameRate{65535, 65534}));
  EXPECT_EQ(FrameRateOf(65536.0 / 65535), (FrameRate{1, 1}));
}

TEST(FrameRateTest, IsNearWhateverIsAsked) {
  for (double fps = kMinFps; fps <= kMaxFps; fps *= 1.00371) {
    const FrameRate rate = FrameRateOf(fps);
    EXPECT_LE(rate.frames, 65535u) << fps;
    EXPECT_LE(rate.seconds, rate.frames) << fps;
    EXPECT_GE(rate.seconds, 1u) << fps;
    EXPECT_LT(std::abs(1.0 * rate.frames / rate.seconds - fps), fps / 65535) << fps;
  }
}

TEST(FrameRateTest, RoundsEachStartByItself) {
  const FrameRate seven{7, 1};
  EXPECT_THAT((std::vector<int64_t>{StartOf(0, seven, 1000), StartOf(1, seven, 1000),
                                    StartOf(2, seven, 1000), StartOf(3, seven, 1000),
                                    StartOf(7, seven, 1000), StartOf(14, seven, 1000)}),
              ::testing::ElementsAre(0, 143, 286, 429, 1000, 2000));
  EXPECT_EQ(StartOf(30000, {30000, 1001}, 1000), 1001 * 1000);
  EXPECT_EQ(StartOf(1, {1, 1}, 1'000'000), 1'000'000);
  // Halves are rounded up.
  EXPECT_EQ(StartOf(1, {16, 1}, 1000), 63);
  EXPECT_EQ(StartOf(1 << 24, {1, 1}, 1'000'000), int64_t{1'000'000} << 24);
}

// The slowest clip of the most frames, by the widest ratio.
TEST(FrameRateTest, DoesNotOverflow) {
  EXPECT_EQ(StartOf(1 << 24, {65535, 65535}, 1'000'000), int64_t{1'000'000} << 24);
}

}  // namespace
}  // namespace latentd::image
