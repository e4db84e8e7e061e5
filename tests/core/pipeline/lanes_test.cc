// Lanes under limited memory.
#include "core/pipeline/units/lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/core/pipeline/four_rows_rig.h"

namespace latentd::pipeline {
namespace {

using ::testing::ElementsAre;

constexpr Size kSize = {64, 72}, kOtherSize = {64, 64}, kLarge = {72, 72};

class LanesRoomTest : public FourRowsTest {
 protected:
  static void SetUpTestSuite() {
    FourRowsTest::SetUpTestSuite();
    for (const Size size : {kOtherSize, kLarge}) rig_->MakeSteps(size, {1, 2, 4});
  }

  static PictureSpec SpecOf(Size size) {
    PictureSpec spec = SmallSpec();
    spec.guidance_scale = 1;
    spec.width = size.width;
    spec.height = size.height;
    return spec;
  }
  // Its first step is next. It has one row, and could share four.
  static std::unique_ptr<Picture> Begin(Size size) {
    auto picture = rig_->BeginSteps(SpecOf(size));
    EXPECT_EQ(picture->most_rows(), 4);
    return picture;
  }
  // Or makes a step.
  bool Waits(Picture& picture) {
    asked_.clear();
    return EnqueueUnit({&picture}, lanes_, *stream_).value().parts[0].waits;
  }
  static int RowsOfLane(const Picture& picture) { return picture.place->lane()->rows(); }

  int rows_ = 4;            // rows that memory is enough for
  std::vector<int> asked_;  // for so many
  std::vector<int> least_;
  Lanes lanes_{[this](const LaneMemory& lane) {
    asked_.push_back(lane.label.rows);
    if (lane.is_least) least_.push_back(lane.label.rows);
    EXPECT_GT(lane.bytes, 0);
    return lane.label.rows <= rows_ ? absl::OkStatus() : absl::ResourceExhaustedError("no room");
  }};
};

TEST_F(LanesRoomTest, WhoIsInNoUnitRestsAndGoesOnWhereItWas) {
  rows_ = 8;
  const auto first = Begin(kSize), second = Begin(kSize);
  for (Picture* picture : {first.get(), second.get(), second.get(), first.get()}) {
    EXPECT_FALSE(Waits(*picture));
  }
  EXPECT_EQ(first->place->lane(), second->place->lane());
  for (Picture* picture : {first.get(), second.get()}) {
    while (picture->next == UnitKind::kStep) EXPECT_FALSE(Waits(*picture));
    EXPECT_EQ(ValuesOf(picture->latents), rig_->Latents(SpecOf(kSize)));
  }
}

TEST_F(LanesRoomTest, HaveFewerRowsWhereThereIsNoRoomForAll) {
  rows_ = 2;
  const auto first = Begin(kSize), second = Begin(kSize);
  EXPECT_FALSE(Waits(*first));
  EXPECT_EQ(RowsOfLane(*first), 2);
  EXPECT_THAT(asked_, ElementsAre(8, 4, 2));
  EXPECT_FALSE(Waits(*second));
  EXPECT_EQ(second->place->lane(), first->place->lane());
  EXPECT_THAT(asked_, ElementsAre());
  EXPECT_THAT(least_, ElementsAre());
}

TEST_F(LanesRoomTest, APicturesOwnRowsAreTakenWhereNobodyWillGiveAnyBack) {
  rows_ = 0;
  const auto picture = Begin(kSize);
  EXPECT_FALSE(Waits(*picture));
  EXPECT_EQ(RowsOfLane(*picture), 1);
  EXPECT_THAT(asked_, ElementsAre(8, 4, 2, 1));
  EXPECT_THAT(least_, ElementsAre(1));
}

TEST_F(LanesRoomTest, APictureWaitsForAnotherLaneThatNobodyJoinsMeanwhile) {
  const auto first = Begin(kSize), waiting = Begin(kOtherSize), joining = Begin(kSize);
  EXPECT_FALSE(Waits(*first));
  rows_ = 0;
  EXPECT_TRUE(Waits(*waiting));
  EXPECT_THAT(asked_, ElementsAre(8, 4, 2, 1));
  EXPECT_TRUE(Waits(*waiting));
  EXPECT_THAT(asked_, ElementsAre());  // nothing has been given back
  EXPECT_TRUE(Waits(*joining));
  EXPECT_FALSE(Waits(*first));
  first->place.reset();
  EXPECT_FALSE(Waits(*waiting));
  EXPECT_EQ(RowsOfLane(*waiting), 1);
  rows_ = 4;
  EXPECT_FALSE(Waits(*joining));
}

// Pictures of two sizes that come without a pause hold memory in turns otherwise.
TEST_F(LanesRoomTest, NoLaneIsMadeBesideOthersWhereSomebodyElseWaits) {
  const auto first = Begin(kSize), second = Begin(kOtherSize), next = Begin(kOtherSize);
  const auto waiting = Begin(kLarge);
  EXPECT_FALSE(Waits(*first));
  EXPECT_FALSE(Waits(*second));
  rows_ = 0;
  EXPECT_TRUE(Waits(*waiting));
  second->place.reset();
  EXPECT_TRUE(Waits(*next));
  EXPECT_THAT(asked_, ElementsAre());
  EXPECT_TRUE(Waits(*waiting));
  EXPECT_THAT(asked_, ElementsAre(8, 4, 2, 1));  // less is held than before
  rows_ = 4;
  EXPECT_TRUE(Waits(*next));
  EXPECT_TRUE(Waits(*waiting));
  EXPECT_THAT(asked_, ElementsAre());
  first->place.reset();
  EXPECT_FALSE(Waits(*waiting));
  EXPECT_FALSE(Waits(*next));
}

TEST_F(LanesRoomTest, LanesAreJoinedAgainWhenWhoWaitsIsGone) {
  const auto first = Begin(kSize), joining = Begin(kSize);
  auto waiting = Begin(kOtherSize);
  EXPECT_FALSE(Waits(*first));
  rows_ = 0;
  EXPECT_TRUE(Waits(*waiting));
  waiting.reset();
  EXPECT_FALSE(Waits(*joining));
  EXPECT_EQ(joining->place->lane(), first->place->lane());
}

// It was cancelled, or could not wait any longer.
TEST_F(LanesRoomTest, WhoWaitsNoMoreHoldsNobodyUpForEver) {
  const auto first = Begin(kSize), waiting = Begin(kOtherSize);
  EXPECT_FALSE(Waits(*first));
  rows_ = 0;
  EXPECT_TRUE(Waits(*waiting));
  first->place.reset();
  rows_ = 4;
  const auto second = Begin(kSize), third = Begin(kSize);
  EXPECT_FALSE(Waits(*second));
  EXPECT_FALSE(Waits(*third));
  EXPECT_EQ(third->place->lane(), second->place->lane());
}

}  // namespace
}  // namespace latentd::pipeline
