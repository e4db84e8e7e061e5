#include "core/batching/predict/forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace latentd::batching {
namespace {

using ::testing::ElementsAre;

constexpr Lane kSmall{.width = 64, .height = 64}, kLarge{.width = 128, .height = 64};
constexpr Lane kRefiner{.network = 1, .width = 64, .height = 64};

// A step of the small lane takes 10 ms for each row, of the large one twice that.
class ForecastTest : public ::testing::Test {
 protected:
  ForecastTest() {
    costs_.Measure(UnitKind::kStep, kSmall, 1, absl::Milliseconds(10));
    costs_.Measure(UnitKind::kStep, kRefiner, 1, absl::Milliseconds(10));
  }

  static ForecastPicture Picture(const Lane& lane, int steps, int rows = 1) {
    ForecastPicture picture = {.ahead = {.stages = {{{lane}}}, .after = {UnitKind::kDecode}},
                               .lane_rows = 4};
    if (steps > 0) picture.ahead.stages[0].runs = {{steps, rows}};
    return picture;
  }
  // When they end, in milliseconds.
  std::vector<double> Ends(const std::vector<ForecastPicture>& pictures) const {
    std::vector<double> ends;
    for (const Outlook& outlook : Foresee(pictures, Sharing::kInTurns, costs_)) {
      ends.push_back(absl::ToDoubleMilliseconds(outlook.ends));
    }
    return ends;
  }
  std::vector<double> EndsByDeadline(const std::vector<ForecastPicture>& pictures) const {
    std::vector<double> ends;
    for (const Outlook& outlook : Foresee(pictures, Sharing::kByDeadline, costs_)) {
      ends.push_back(std::round(absl::ToDoubleMilliseconds(outlook.ends)));
    }
    return ends;
  }
  void ExpectEnds(const std::vector<ForecastPicture>& pictures,
                  const std::vector<double>& expected) const {
    const std::vector<double> ends = Ends(pictures);
    ASSERT_EQ(ends.size(), expected.size());
    for (size_t i = 0; i < ends.size(); ++i) EXPECT_NEAR(ends[i], expected[i], 0.01) << i;
  }

  Costs costs_;
};

TEST_F(ForecastTest, OfNobodyIsEmpty) { ExpectEnds({}, {}); }

TEST_F(ForecastTest, OnePictureTakesAllItsUnits) {
  costs_.Measure(UnitKind::kText, kSmall, 1, absl::Milliseconds(1));
  costs_.Measure(UnitKind::kEncode, kSmall, 1, absl::Milliseconds(2));
  costs_.Measure(UnitKind::kDecode, kSmall, 1, absl::Milliseconds(3));
  ForecastPicture picture = Picture(kSmall, 5);
  picture.ahead.stages[0].text = true;
  picture.ahead.before = {UnitKind::kEncode};
  ExpectEnds({picture}, {1 + 2 + 50 + 3});
}

TEST_F(ForecastTest, PicturesOfOneLaneShareTheirSteps) {
  // Two rows 20 ms a step as long as both are there.
  ExpectEnds({Picture(kSmall, 5), Picture(kSmall, 10)}, {5 * 20, 5 * 20 + 5 * 10});
}

TEST_F(ForecastTest, LanesShareTheDevice) {
  // 10 steps of 10 ms and 5 of 20 ms, side by side.
  ExpectEnds({Picture(kSmall, 10), Picture(kLarge, 5)}, {200, 200});
}

TEST_F(ForecastTest, ByTheWeightOfTheirPictures) {
  std::vector<ForecastPicture> pictures = {Picture(kSmall, 10), Picture(kLarge, 5)};
  pictures[1].weight = 4;
  ExpectEnds(pictures, {200, 125});
}

TEST_F(ForecastTest, WhoFindsNoRowsWaitsAndNobodyOvertakes) {
  const std::vector<ForecastPicture> pictures = {Picture(kSmall, 2, 3), Picture(kSmall, 1, 2),
                                                 Picture(kSmall, 1, 1)};
  ExpectEnds(pictures, {2 * 30, 2 * 30 + 30, 2 * 30 + 30});
  EXPECT_EQ(Foresee(pictures, Sharing::kInTurns, costs_)[1].begins, absl::Milliseconds(60));
  EXPECT_EQ(Foresee(pictures, Sharing::kInTurns, costs_)[2].begins, absl::Milliseconds(60));
}

// 10 steps: 2 of one row, 5 of two, 3 of one.
TEST_F(ForecastTest, StepsOfOneRowTakeTheTimeOfOne) {
  ForecastPicture picture = Picture(kSmall, 10, 2);
  picture.ahead.stages[0].runs = {{2, 1}, {5, 2}, {3, 1}};
  ExpectEnds({picture}, {2 * 10 + 5 * 20 + 3 * 10});
  ExpectEnds({picture, Picture(kSmall, 4)}, {2 * 20 + 2 * 30 + 3 * 20 + 3 * 10, 2 * 20 + 2 * 30});
}

// The first takes one row until its last step but two, and then two; the second has the others.
TEST_F(ForecastTest, RowsAreKeptForWhoTakesThemLater) {
  ForecastPicture later = Picture(kSmall, 4, 2), earlier = Picture(kSmall, 4, 2);
  later.ahead.stages[0].runs = {{2, 1}, {2, 2}};
  earlier.ahead.stages[0].runs = {{2, 2}, {2, 1}};
  const ForecastPicture wide = Picture(kSmall, 1, 3), one = Picture(kSmall, 1, 3);
  ExpectEnds({later, wide}, {2 * 10 + 2 * 20, 60 + 30});
  ExpectEnds({earlier, one}, {2 * 20 + 40 + 10, 2 * 20 + 40});
}

// 4 and 10 steps of two rows, between which one of them has 2 previews.
TEST_F(ForecastTest, PreviewsHoldUpAllThatAreInTheLane) {
  costs_.Measure(UnitKind::kPreview, kSmall, 1, absl::Milliseconds(4));
  ForecastPicture shown = Picture(kSmall, 4), other = Picture(kSmall, 10);
  shown.ahead.after = other.ahead.after = {};
  shown.ahead.stages[0].previews = 2;
  ExpectEnds({shown, other}, {4 * 20 + 2 * 4, 4 * 20 + 2 * 4 + 6 * 10});
}

TEST_F(ForecastTest, ARefinerComesAfterTheBase) {
  ForecastPicture picture = Picture(kSmall, 4);
  picture.ahead.stages[1] = {kRefiner, false, {{2}}};
  ExpectEnds({picture}, {60});
}

TEST_F(ForecastTest, WhatTakesMoreRowsThanThereAreRunsAlone) {
  ExpectEnds({Picture(kSmall, 1, 9), Picture(kSmall, 1, 1)}, {90, 100});
}

TEST_F(ForecastTest, WhatNobodyKnowsTheTimeOfTakesNone) {
  const std::vector<ForecastPicture> pictures = {
      Picture({.network = 2, .width = 64, .height = 64}, 100), Picture(kSmall, 1)};
  ExpectEnds(pictures, {0, 10});
  EXPECT_FALSE(Foresee(pictures, Sharing::kInTurns, costs_)[0].known);
  EXPECT_TRUE(Foresee(pictures, Sharing::kInTurns, costs_)[1].known);
}

// Its graphs are being made ready.
TEST_F(ForecastTest, OfWhatIsNotPlannedYetIsNotKnown) {
  EXPECT_FALSE(Foresee({{}}, Sharing::kInTurns, costs_)[0].known);
}

TEST_F(ForecastTest, OfAPictureThatIsNotDecodedAllIsKnown) {
  costs_.Measure(UnitKind::kDecode, kSmall, 1, absl::Milliseconds(3));
  ForecastPicture picture = Picture(kSmall, 2);
  ExpectEnds({picture}, {2 * 10 + 3});
  picture.ahead.after = {};
  ExpectEnds({picture}, {2 * 10});
  EXPECT_TRUE(Foresee({{picture}}, Sharing::kInTurns, costs_)[0].known);
}

TEST_F(ForecastTest, ByDeadlineTheFirstRunsFirst) {
  const std::vector<ForecastPicture> pictures = {Picture(kSmall, 5), Picture(kLarge, 5),
                                                 Picture(kSmall, 10)};
  EXPECT_THAT(EndsByDeadline(pictures), ElementsAre(50, 50 + 100, 150 + 100));
}

// Two rows take as long as one.
TEST_F(ForecastTest, ByDeadlineOthersOfItsLaneShareItsStepsWhereThatPays) {
  costs_.Measure(UnitKind::kStep, kSmall, 2, absl::Milliseconds(10));
  const std::vector<ForecastPicture> pictures = {Picture(kSmall, 5), Picture(kLarge, 5),
                                                 Picture(kSmall, 10)};
  EXPECT_THAT(EndsByDeadline(pictures), ElementsAre(50, 50 + 50, 100 + 50));
}

// The first finds no rows until the last, which holds them, is through its steps; what comes after
// these waits for the first.
TEST_F(ForecastTest, ByDeadlineNobodyPassesThoseWhoHoldTheRowsThatItNeeds) {
  std::vector<ForecastPicture> pictures = {Picture(kSmall, 1, 2), Picture(kLarge, 1),
                                           Picture(kSmall, 2, 4)};
  pictures[2].begun = true;
  EXPECT_THAT(EndsByDeadline(pictures), ElementsAre(120, 20, 20 + 80 + 20));
  pictures[0].lane_places = 8;
  EXPECT_THAT(EndsByDeadline(pictures), ElementsAre(20, 40, 120));
}

TEST_F(ForecastTest, ByDeadlineWhatComesBeforeAndAfterStepsTakesItsTime) {
  costs_.Measure(UnitKind::kText, kSmall, 1, absl::Milliseconds(1));
  costs_.Measure(UnitKind::kDecode, kSmall, 1, absl::Milliseconds(3));
  ForecastPicture picture = Picture(kSmall, 4);
  picture.ahead.stages[0].text = true;
  picture.ahead.stages[1] = {kRefiner, false, {{2}}};
  EXPECT_THAT(EndsByDeadline({picture, picture}), ElementsAre(64, 128));
}

// More rows than are evaluated at once take turns.
TEST_F(ForecastTest, MoreRowsThanAnEvaluationHasTakeAsManyAsTheyNeed) {
  std::vector<ForecastPicture> pictures(4, Picture(kSmall, 3, 2));
  for (ForecastPicture& picture : pictures) picture.begun = true;
  ExpectEnds(pictures, {240, 240, 240, 240});
}

TEST_F(ForecastTest, APictureWithoutStepsIsEncodedAndDecoded) {
  costs_.Measure(UnitKind::kEncode, kSmall, 1, absl::Milliseconds(2));
  costs_.Measure(UnitKind::kText, kSmall, 1, absl::Milliseconds(1));
  costs_.Measure(UnitKind::kDecode, kSmall, 1, absl::Milliseconds(3));
  ForecastPicture picture = Picture(kSmall, 0);
  picture.ahead.stages[0].text = true;
  picture.ahead.before = {UnitKind::kEncode};
  ExpectEnds({picture}, {1 + 2 + 3});
}

}  // namespace
}  // namespace latentd::batching
