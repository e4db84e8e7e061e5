#include "tests/golden/report.h"

#include <gtest/gtest.h>

#include <cmath>

namespace latentd::golden {
namespace {

TEST(Report, PassesIfEveryCaseIsWithinItsTolerance) {
  Report report;
  report.Measured("exact", {{"distance", 0, 0}});
  report.Measured("near", {{"distance", 1e-5, 1e-4}});
  report.Skipped("long", "not asked for");
  EXPECT_TRUE(report.Finish());
}

TEST(Report, FailsIfACaseIsBeyondItsTolerance) {
  Report report;
  report.Measured("near", {{"distance", 1e-5, 1e-4}});
  report.Measured("far", {{"distance", 2e-4, 1e-4}});
  EXPECT_FALSE(report.Finish());
}

TEST(Report, FailsIfOneMeasureOfACaseIsWrong) {
  Report report;
  report.Measured("half", {{"latents", 0, 1e-4}, {"pixels", 2, 1}});
  EXPECT_FALSE(report.Finish());
}

TEST(Report, PassesIfALikenessIsAtLeastItsLimit) {
  Report report;
  report.Measured("equal", {{"likeness", 1, 0.99, Bound::kAtLeast}});
  report.Measured("just", {{"likeness", 0.99, 0.99, Bound::kAtLeast}});
  EXPECT_TRUE(report.Finish());
}

TEST(Report, FailsIfALikenessIsBelowItsLimit) {
  Report report;
  report.Measured("unlike", {{"likeness", 0.98, 0.99, Bound::kAtLeast}});
  EXPECT_FALSE(report.Finish());
}

TEST(Report, FailsOnNan) {
  for (const Bound bound : {Bound::kAtMost, Bound::kAtLeast}) {
    Report report;
    report.Measured("broken", {{"distance", NAN, 1e-4, bound}});
    EXPECT_FALSE(report.Finish());
  }
}

TEST(Report, FailsIfACaseCouldNotRun) {
  Report report;
  report.Measured("near", {{"distance", 0, 0}});
  report.Failed("missing", absl::NotFoundError("no file"));
  EXPECT_FALSE(report.Finish());
}

TEST(Report, FailsIfNothingRan) {
  Report report;
  report.Skipped("long", "not asked for");
  EXPECT_FALSE(report.Finish());
}

}  // namespace
}  // namespace latentd::golden
