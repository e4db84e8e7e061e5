#include "core/batching/admit/demand.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace latentd::batching {
namespace {

class DemandTest : public ::testing::Test {
 protected:
  static absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }
  // So much of the device's time, once a second.
  void Ask(const char* caller, double work, int from, int until) {
    for (int i = from; i < until; ++i) demand_.Add(caller, absl::Seconds(work), At(i));
  }

  Demand demand_;
};

TEST_F(DemandTest, WhoIsAloneHasAll) {
  Ask("a", 10, 0, 10);
  EXPECT_EQ(demand_.PartOf("a", At(10)), 1);
  EXPECT_NEAR(demand_.PartOf("b", At(10)), 0.5, 1e-6);
}

TEST_F(DemandTest, WhatOthersDoNotWantIsLeft) {
  Ask("a", 10, 0, 20);
  Ask("b", 0.1, 0, 20);
  Ask("c", 0.2, 0, 20);
  EXPECT_NEAR(demand_.PartOf("a", At(20)), 1 - 0.1 - 0.2, 0.03);
}

TEST_F(DemandTest, AnEqualPartIsLeftWhateverOthersWant) {
  Ask("a", 0.1, 0, 20);
  for (const char* other : {"b", "c", "d"}) Ask(other, 10, 0, 20);
  EXPECT_NEAR(demand_.PartOf("a", At(20)), 0.25, 1e-6);
}

// Much at once is not taken for what has always been.
TEST_F(DemandTest, IsKnownAfterSecondsAndForgottenAfterMore) {
  Ask("a", 0.1, 0, 20);
  Ask("b", 0.1, 0, 20);
  Ask("b", 2, 20, 23);
  EXPECT_NEAR(demand_.PartOf("a", At(23)), 0.5, 1e-6);
  EXPECT_GT(demand_.PartOf("a", At(60)), 0.95);
}

TEST_F(DemandTest, WhoBeginsIsMeasuredByWhatItHasAskedForSince) {
  demand_.Add("a", absl::Seconds(0.2), At(0));
  demand_.Add("b", absl::Seconds(0.2), At(0));
  EXPECT_NEAR(demand_.PartOf("a", At(0)), 0.8, 1e-6);
  EXPECT_NEAR(demand_.PartOf("a", At(2)), 0.9, 0.01);
}

TEST_F(DemandTest, UnknownWorkCountsAsMuch) {
  demand_.Add("a", absl::ZeroDuration(), At(0));
  demand_.Add("b", absl::ZeroDuration(), At(0));
  EXPECT_NEAR(demand_.PartOf("a", At(0)), 0.5, 1e-6);
}

TEST_F(DemandTest, WhoHasNotAskedForAMinuteHasNoPart) {
  for (const char* caller : {"a", "b", "c"}) demand_.Add(caller, absl::Seconds(1e6), At(0));
  demand_.Add("a", absl::Seconds(100), At(60));
  EXPECT_NEAR(demand_.PartOf("a", At(60)), 1.0 / 3, 1e-6);
  demand_.Add("a", absl::Seconds(100), At(61));
  EXPECT_EQ(demand_.PartOf("a", At(61)), 1);
}

// Or the parts of two that want everything would be more than all.
TEST_F(DemandTest, WhatLightCallersLeaveIsSharedByTheOthers) {
  for (const char* light : {"a", "b", "c"}) Ask(light, 0.1, 0, 30);
  for (const char* heavy : {"d", "e"}) Ask(heavy, 10, 0, 30);
  EXPECT_NEAR(demand_.PartOf("d", At(30)), (1 - 0.3) / 2, 0.02);
  EXPECT_NEAR(demand_.PartOf("e", At(30)), (1 - 0.3) / 2, 0.02);
  EXPECT_NEAR(demand_.PartOf("a", At(30)), (1 - 0.2) / 3, 0.02);
}

TEST_F(DemandTest, CallersAreBounded) {
  for (int i = 0; i < 5000; ++i) demand_.Add(absl::StrCat(i), absl::Seconds(100), At(0));
  EXPECT_NEAR(demand_.PartOf("0", At(0)), 1.0 / 1024, 1e-6);
}

}  // namespace
}  // namespace latentd::batching
