#include "tests/golden/likeness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/golden/case_files.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::golden {
namespace {

using device::DType;
using ::testing::SizeIs;

constexpr Likeness kOfDiffusers = {.median = 0.997, .worst = 0.98};

bool Passes(const std::vector<double>& similarities) {
  const auto measures = MeasureLikeness(similarities, kOfDiffusers, 1.25);
  return std::all_of(measures.begin(), measures.end(),
                     [](const Measure& measure) { return measure.Right(); });
}

TEST(Likeness, IsTheMedianAndTheWorst) {
  const Likeness odd = LikenessOf({0.9, 0.7, 0.8});
  EXPECT_EQ(odd.median, 0.8);
  EXPECT_EQ(odd.worst, 0.7);
  EXPECT_EQ(LikenessOf({0.9, 0.8}).median, 0.8);
}

TEST(Likeness, PassesOverAnUnluckyDraw) {
  EXPECT_TRUE(Passes({0.997, 0.998, 0.9895, 0.997, 0.996}));
  EXPECT_TRUE(Passes({0.997, 0.998, 0.97, 0.997, 0.96}));
}

TEST(Likeness, FailsWhereTheMedianIsLow) {
  const Likeness of_diffusers = {.median = 0.991, .worst = 0.98};  // would let it lose more
  EXPECT_TRUE(MeasureLikeness({0.998, 0.9901, 0.99}, of_diffusers, 4)[0].Right());
  EXPECT_FALSE(MeasureLikeness({0.998, 0.9899, 0.9899}, of_diffusers, 4)[0].Right());
}

TEST(Likeness, FailsWhereTheMedianLosesMuchMoreThanDiffusers) {
  EXPECT_TRUE(Passes({0.998, 0.9963, 0.9963, 0.9963, 0.998}));
  EXPECT_FALSE(Passes({0.998, 0.9962, 0.9962, 0.9962, 0.998}));
}

TEST(Likeness, FailsWhereOnePictureIsAnother) {
  EXPECT_FALSE(Passes({0.997, 0.998, 0.94, 0.997, 0.996}));
}

TEST(Likeness, OfACaseOfOneDrawIsThatOfItsWorst) {
  const auto measures = MeasureLikeness({0.98, 0.96}, std::nullopt, 1.25);
  ASSERT_THAT(measures, SizeIs(1));
  EXPECT_EQ(measures[0].value, 0.96);
  EXPECT_TRUE(measures[0].Right());
  EXPECT_FALSE(MeasureLikeness({0.98, 0.94}, std::nullopt, 1.25)[0].Right());
}

class LikenessFiles : public ::testing::TestWithParam<DType> {
 protected:
  const Options options_ = {.cases = ::latentd::testing::SourcePath("tests/golden"),
                            .precision = GetParam()};
  const LikenessCases cases_ = LikenessCases::Read(options_).value();
};

INSTANTIATE_TEST_SUITE_P(Of, LikenessFiles, ::testing::Values(DType::kBF16, DType::kF16),
                         [](const auto& info) { return std::string(device::Name(info.param)); });

// A bar that diffusers itself does not reach would be none for latentd.
TEST_P(LikenessFiles, LeaveDiffusersPicturesAsAlikeAsLatentdsHaveToBe) {
  ASSERT_OK_AND_ASSIGN(const nlohmann::json seeds, ReadJsonFile(options_.cases + "/likeness.json"));
  EXPECT_GE(seeds.size(), 4);
  for (const auto& [name, unused] : seeds.items()) {
    const std::optional<Likeness> kept = cases_.OfDiffusers(name);
    ASSERT_TRUE(kept.has_value()) << name;
    EXPECT_GE(kept->median, kLeastMedianSimilarity) << name;
    EXPECT_GE(kept->worst, kLeastSimilarity) << name;
    EXPECT_GE(cases_.SeedsOf(name).size(), 6) << name;
  }
}

TEST_P(LikenessFiles, HaveAPictureOfEachSeed) {
  for (const char* name : {"zero_snr", "ensemble_clip_skip", "star", "vae_tiling"}) {
    for (const uint64_t seed : cases_.SeedsOf(name)) {
      EXPECT_TRUE(std::filesystem::exists(cases_.PicturePath(name, seed))) << name << seed;
    }
  }
  EXPECT_THAT(cases_.SeedsOf("ensemble"), SizeIs(0));
  EXPECT_FALSE(cases_.OfDiffusers("ensemble").has_value());
}

}  // namespace
}  // namespace latentd::golden
