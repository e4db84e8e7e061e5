// A size at which an evaluation of more rows than a picture needs would have too many pixels: its
// pictures take none, though there were graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
#include "tests/core/pipeline/rig.h"

namespace latentd::pipeline {
namespace {

constexpr Size kSmall = {64, 64}, kLarge = {64, 72};

std::unique_ptr<Rig> Load(std::vector<int> row_counts, int64_t max_shared_pixels) {
  return std::make_unique<Rig>(LoadOptions{.base = testing::kDemoBase,
                                           .row_counts = std::move(row_counts),
                                           .max_shared_pixels = max_shared_pixels},
                               "", backends::cpu::CpuBackend::Create().value());
}

PictureSpec SpecOf(Size size, double guidance) {
  PictureSpec spec = SmallSpec();
  spec.guidance_scale = guidance;
  spec.width = size.width;
  spec.height = size.height;
  return spec;
}

class SharedPixelsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    rig_ = Load({1, 2, 4}, 4 * 64 * 64);
    for (const Size size : {kSmall, kLarge}) rig_->MakeSteps(size, {1, 2, 4});
  }
  static void TearDownTestSuite() { rig_.reset(); }

  // Expects `rows` for one picture that runs at `executed`: in the largest evaluation that it
  // brings, and in its lane.
  static void ExpectRows(Size asked, Size executed, double guidance, int rows) {
    Asked spec = SpecOf(asked, guidance);
    spec.executed_size = executed;
    const auto picture = rig_->Start(spec);
    EXPECT_EQ(picture->most_rows(), rows);
    for (int unit = 0; unit < 2; ++unit) EXPECT_OK(testing::RunUnit(*picture));  // text, a step
    ASSERT_TRUE(picture->place.has_value());
    EXPECT_EQ(picture->place->lane()->rows(), RowsOfLane(rows));
    EXPECT_OK(rig_->Run(*picture));
  }

  static inline std::unique_ptr<Rig> rig_;
};

TEST_F(SharedPixelsTest, ALargeSizesPicturesTakeNoMoreRowsThanOneNeeds) {
  ExpectRows(kSmall, kSmall, /*guidance=*/1, 4);
  ExpectRows(kLarge, kLarge, /*guidance=*/1, 2);
}

TEST_F(SharedPixelsTest, WhatCountsIsTheSizeThatRuns) {
  ExpectRows(kSmall, kLarge, /*guidance=*/1, 2);
}

TEST_F(SharedPixelsTest, APictureHasTheRowsThatItNeedsItself) {
  ExpectRows(kLarge, kLarge, /*guidance=*/5, 2);
  const auto none = Load({1, 2, 4}, 0);
  EXPECT_EQ(none->Latents(SpecOf(kLarge, 5)), rig_->Latents(SpecOf(kLarge, 5)));
}

// Pictures that are in a lane side by side hold their latents.
TEST_F(SharedPixelsTest, ARequestHoldsNoMoreThanItsLaneHasRows) {
  const auto few = Load({1, 2}, kDefaultSharedPixels), many = Load({1, 2, 4}, kDefaultSharedPixels);
  const auto bytes = [](const Rig& rig, Size size) {
    PictureSpec spec = SpecOf(size, 1);
    spec.num_images_per_prompt = 4;
    return rig.pipeline->Resolve(spec).value()->state_bytes;
  };
  EXPECT_LT(bytes(*few, kLarge), bytes(*many, kLarge));
  EXPECT_EQ(bytes(*rig_, kLarge), bytes(*few, kLarge));
  EXPECT_EQ(bytes(*rig_, kSmall), bytes(*many, kSmall));
}

}  // namespace
}  // namespace latentd::pipeline
