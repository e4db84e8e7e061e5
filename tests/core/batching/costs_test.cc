#include "core/batching/predict/costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/batching/predict/entry.h"

namespace latentd::batching {
namespace {

constexpr Lane kSmall{.width = 64, .height = 64}, kLarge{.width = 128, .height = 64};
constexpr Lane kRefiner{.network = 1, .width = 64, .height = 64};

absl::Duration Ms(double milliseconds) { return absl::Milliseconds(milliseconds); }

TEST(CostsTest, AreUnknownBeforeAnythingWasMeasured) {
  EXPECT_EQ(Costs().Of(UnitKind::kStep, kSmall, 1), absl::ZeroDuration());
}

TEST(CostsTest, FollowWhatWasMeasuredAndForgetWhatWasDisturbed) {
  Costs costs;
  costs.Measure(UnitKind::kStep, kSmall, 2, Ms(100));  // the first one, of cold memory
  for (int i = 0; i < 50; ++i) costs.Measure(UnitKind::kStep, kSmall, 2, Ms(10));
  EXPECT_GT(costs.Of(UnitKind::kStep, kSmall, 2), Ms(9.9));
  EXPECT_LT(costs.Of(UnitKind::kStep, kSmall, 2), Ms(10.1));
}

TEST(CostsTest, OfWhatWasNotMeasuredFollowPixelsAndRows) {
  Costs costs;
  costs.Measure(UnitKind::kStep, kSmall, 2, Ms(10));
  EXPECT_EQ(costs.Of(UnitKind::kStep, kLarge, 2), Ms(20));
  EXPECT_EQ(costs.Of(UnitKind::kStep, kSmall, 4), Ms(20));
  costs.Measure(UnitKind::kStep, kLarge, 2, Ms(50));
  EXPECT_EQ(costs.Of(UnitKind::kStep, kLarge, 4), Ms(100));  // from the nearest measurement
}

TEST(CostsTest, OfWhatWasNotMeasuredFollowWhatIsMeasuredLater) {
  Costs costs;
  EXPECT_EQ(costs.Of(UnitKind::kStep, kSmall, 4), absl::ZeroDuration());
  costs.Measure(UnitKind::kStep, kSmall, 1, Ms(10));
  EXPECT_EQ(costs.Of(UnitKind::kStep, kSmall, 4), Ms(40));
  costs.Measure(UnitKind::kStep, kSmall, 1, Ms(14));
  EXPECT_EQ(costs.Of(UnitKind::kStep, kSmall, 4), Ms(44));
  costs.Measure(UnitKind::kStep, kSmall, 2, Ms(12));  // the nearer measurement
  EXPECT_EQ(costs.Of(UnitKind::kStep, kSmall, 4), Ms(24));
}

// Text that runs encoders three times as often takes three times as long, at any size.
TEST(CostsTest, OfTextFollowHowManyPlainOnesItIs) {
  Costs costs;
  costs.Measure(UnitKind::kText, kSmall, 1, Ms(10));
  EXPECT_EQ(costs.Of(UnitKind::kText, kLarge, 1), Ms(10));
  EXPECT_EQ(costs.Of(UnitKind::kText, kLarge, 3), Ms(30));
  costs.Measure(UnitKind::kText, kSmall, 3, Ms(24));
  EXPECT_EQ(costs.Of(UnitKind::kText, kSmall, 3), Ms(24));
  EXPECT_EQ(costs.Of(UnitKind::kText, kSmall, 1), Ms(10));
  const Ahead ahead{.stages = {Ahead::Stage{.lane = kSmall, .text = 3}, Ahead::Stage{}}};
  EXPECT_EQ(costs.Alone(ahead), Ms(24));
}

// Sizes are the clients' choice.
TEST(CostsTest, AnyNumberOfSizesMayBeAskedFor) {
  Costs costs;
  costs.Measure(UnitKind::kStep, kSmall, 1, Ms(10));
  for (int i = 1; i <= 1000; ++i) {
    const Lane lane{.width = 64 * i, .height = 64};
    ASSERT_NEAR(absl::ToDoubleMilliseconds(costs.Of(UnitKind::kStep, lane, 1)), 10 * i, 1e-6);
  }
}

TEST(CostsTest, OfRowsAreThoseOfTheLeastThatAreEnough) {
  Costs costs;
  costs.Measure(UnitKind::kStep, kSmall, 2, Ms(10));
  costs.Measure(UnitKind::kStep, kSmall, 8, Ms(30));
  EXPECT_EQ(costs.Of(UnitKind::kStep, kSmall, 3), Ms(30));  // 8 are computed
  EXPECT_EQ(costs.Of(UnitKind::kStep, kSmall, 1), Ms(10));
  EXPECT_EQ(costs.Of(UnitKind::kStep, kSmall, 16), Ms(60));
}

TEST(CostsTest, AreTrustedWhenTheyHaveBeenMeasuredOften) {
  Costs costs;
  const Ahead ahead{.stages = {{{kSmall, false, {{3, 2}}}}}};
  const Ahead narrow{.stages = {{{kSmall, false, {{3, 1}}}}}};
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(costs.HasMeasured(ahead));
    costs.Measure(UnitKind::kStep, kSmall, 2, Ms(10));
  }
  EXPECT_TRUE(costs.HasMeasured(ahead));
  EXPECT_FALSE(costs.HasMeasured(narrow));
}

TEST(CostsTest, AreTrustedForAllRowCountsThatStepsHave) {
  Costs costs;
  const Ahead ahead{.stages = {{{.lane = kSmall, .runs = {{2, 2}, {1, 1}}}}}};
  for (int i = 0; i < 4; ++i) costs.Measure(UnitKind::kStep, kSmall, 2, Ms(10));
  EXPECT_FALSE(costs.HasMeasured(ahead));
  for (int i = 0; i < 4; ++i) costs.Measure(UnitKind::kStep, kSmall, 1, Ms(6));
  EXPECT_TRUE(costs.HasMeasured(ahead));
  EXPECT_EQ(costs.Alone(ahead), Ms(2 * 10 + 6));
}

TEST(CostsTest, AreThoseOfOneNetworkAndKind) {
  Costs costs;
  costs.Measure(UnitKind::kStep, kSmall, 1, Ms(10));
  EXPECT_EQ(costs.Of(UnitKind::kStep, kRefiner, 1), absl::ZeroDuration());
  EXPECT_EQ(costs.Of(UnitKind::kDecode, kSmall), absl::ZeroDuration());
  costs.Measure(UnitKind::kDecode, kSmall, 1, Ms(7));
  EXPECT_EQ(costs.Of(UnitKind::kDecode, kRefiner), Ms(7));  // one VAE for both
  costs.Measure(UnitKind::kText, kSmall, 1, Ms(3));
  EXPECT_EQ(costs.Of(UnitKind::kText, kLarge), Ms(3));  // prompts are as long at every size
}

TEST(CostsTest, SharedIsAPartOfTheLargestEvaluation) {
  Costs costs;
  costs.Measure(UnitKind::kStep, kSmall, 2, Ms(10));
  costs.Measure(UnitKind::kStep, kSmall, 8, Ms(16));
  const Ahead ahead{.stages = {{{kSmall, false, {{5, 2}}}}}};
  EXPECT_EQ(costs.Shared(ahead, 8), Ms(5 * 4));
  EXPECT_EQ(costs.Alone(ahead), Ms(5 * 10));
  costs.Measure(UnitKind::kStep, kSmall, 8, Ms(400));  // dearer together, so never done
  EXPECT_EQ(costs.Shared(ahead, 8), Ms(5 * 10));
}

TEST(CostsTest, AloneAreThoseOfAllUnitsThatAreLeft) {
  Costs costs;
  costs.Measure(UnitKind::kText, kSmall, 1, Ms(1));
  costs.Measure(UnitKind::kStep, kSmall, 2, Ms(10));
  costs.Measure(UnitKind::kStep, kRefiner, 2, Ms(100));
  costs.Measure(UnitKind::kEncode, kSmall, 1, Ms(1000));
  costs.Measure(UnitKind::kDecode, kSmall, 1, Ms(10000));
  const Ahead ahead{.stages = {{{kSmall, true, {{3, 2}}}, {kRefiner, false, {{2, 2}}}}},
                    .before = {UnitKind::kEncode},
                    .after = {UnitKind::kDecode}};
  EXPECT_EQ(costs.Alone(ahead), Ms(1 + 30 + 200 + 1000 + 10000));
}

TEST(CostsTest, OfVideosAreNotThoseOfPicturesOfTheirSize) {
  constexpr Lane kVideo{.network = 5, .width = kSmall.width, .height = kSmall.height, .frames = 8};
  Costs costs;
  for (const UnitKind kind : {UnitKind::kEncode, UnitKind::kDecode}) {
    costs.Measure(kind, kSmall, 1, Ms(7));
    EXPECT_EQ(costs.Of(kind, kVideo), absl::ZeroDuration());
    costs.Measure(kind, kVideo, 1, Ms(100));
    EXPECT_EQ(costs.Of(kind, kSmall), Ms(7));
  }
}

TEST(CostsTest, OfStepsGrowWithFrames) {
  Lane video{.network = 5, .width = 64, .height = 64, .frames = 8};
  Costs costs;
  costs.Measure(UnitKind::kStep, video, 2, Ms(100));
  video.frames = 16;
  EXPECT_EQ(costs.Of(UnitKind::kStep, video, 2), Ms(200));
  EXPECT_FALSE(costs.HasMeasured({.stages = {{{video, 0, {{1, 2}}}}}}));
}

TEST(CostsTest, OfADecodeAreByTheFramesOfItsChunk) {
  constexpr Lane kVideo{.network = 5, .width = 64, .height = 64, .frames = 10};
  Costs costs;
  costs.Measure(UnitKind::kDecode, kVideo, 4, Ms(40));
  costs.Measure(UnitKind::kDecode, kVideo, 2, Ms(30));
  const Ahead ahead{
      .stages = {{{kVideo}}},
      .after = {{UnitKind::kDecode, 4}, {UnitKind::kDecode, 4}, {UnitKind::kDecode, 2}}};
  EXPECT_EQ(costs.Alone(ahead), Ms(40 + 40 + 30));
}

TEST(CostsTest, OfAnEncodeAreThoseOfTheRequestsFirstOrOfEach) {
  Entry second{.picture = 2, .request = 1};
  second.need.ahead.before = {UnitKind::kEncode};
  EXPECT_THAT(PictureOf(second).ahead.before, ::testing::IsEmpty());
  second.need.ahead.before.front().is_own = true;
  EXPECT_THAT(PictureOf(second).ahead.before, ::testing::SizeIs(1));
}

TEST(CostsTest, OfPreviewsCount) {
  Costs costs;
  costs.Measure(UnitKind::kStep, kSmall, 1, Ms(10));
  costs.Measure(UnitKind::kPreview, kSmall, 1, Ms(1));
  const Ahead ahead{.stages = {{{.lane = kSmall, .runs = {{3}}, .previews = 2}}}};
  EXPECT_EQ(costs.Alone(ahead), Ms(30 + 2));
}

TEST(CostsTest, ForgetShapesWhenClientsChooseTooMany) {
  Costs costs;
  costs.Measure(UnitKind::kStep, kSmall, 1, Ms(10));
  for (int side = 1; side < 1000; ++side) {
    costs.Measure(UnitKind::kDecode, {.width = side, .height = 8}, 1, Ms(1));
  }
  EXPECT_EQ(costs.Of(UnitKind::kStep, kSmall, 1), absl::ZeroDuration());
}

}  // namespace
}  // namespace latentd::batching
