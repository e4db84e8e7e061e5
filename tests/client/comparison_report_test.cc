#include "client/output/comparison_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "tests/support/status_matchers.h"

namespace latentd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kEqual = std::numeric_limits<double>::infinity();

image::Image Flat(int side, uint8_t value) {
  return {side, side, std::vector<uint8_t>(static_cast<size_t>(side) * side * 3, value)};
}

ComparedPicture Compared(uint64_t seed, Similarity similarity) {
  return {.prompt = "a \"red\" <star>",
          .seed = seed,
          .file_a = "A",
          .file_b = "B",
          .similarity = similarity};
}

Comparison Two() {
  Comparison comparison = {
      .server_a = "one:1", .server_b = "other:2", .steps = 30, .fewer_steps = 28};
  comparison.pictures = {Compared(7, {1, kEqual, 0}), Compared(8, {0.75, 20.25, 9})};
  comparison.pictures[1].fewer_steps = Similarity{0.5, 15, 40};
  comparison.pictures[1].previews[3] = {0.875, 30, 5};
  return comparison;
}

TEST(Compare, SaysHowFarPixelsAreOff) {
  ASSERT_OK_AND_ASSIGN(const Similarity equal, Compare(Flat(12, 50), Flat(12, 50)));
  EXPECT_EQ(equal.ssim, 1);
  EXPECT_EQ(equal.psnr, kEqual);
  EXPECT_EQ(equal.largest_change, 0);
  image::Image other = Flat(12, 50);
  other.rgb[5] = 20;
  ASSERT_OK_AND_ASSIGN(const Similarity off, Compare(Flat(12, 50), other));
  EXPECT_LT(off.ssim, 1);
  EXPECT_EQ(off.largest_change, 30);
  EXPECT_FALSE(Compare(Flat(12, 50), Flat(13, 50)).ok());
}

TEST(SpreadOf, IsTheLeastAndTheLesserMiddle) {
  const Spread even = SpreadOf({4, 1, 3, 2});
  EXPECT_EQ(even.median, 2);
  EXPECT_EQ(even.worst, 1);
  EXPECT_EQ(SpreadOf({5, 9, 7}).median, 7);
}

TEST(ComparisonTable, HasARowForEachThatWasMeasured) {
  const std::string table = ComparisonTable(Two());
  EXPECT_THAT(table,
              HasSubstr("the two servers              0.7500   0.7500     20.2     20.2        9"));
  EXPECT_THAT(table, HasSubstr("28 instead of 30 steps       0.5000"));
  EXPECT_THAT(table, HasSubstr("preview of step 3            0.8750"));
  EXPECT_THAT(table, HasSubstr("2 pictures, of which 1 are equal"));
  EXPECT_THAT(table, Not(HasSubstr("another seed")));
}

TEST(ComparisonJson, IsJsonWithoutInfinities) {
  const auto json = nlohmann::json::parse(ComparisonJson(Two()));
  EXPECT_EQ(json["servers"], nlohmann::json({"one:1", "other:2"}));
  EXPECT_EQ(json["ssim"]["worst"], 0.75);
  EXPECT_EQ(json["psnr"]["median"], 20.25);
  EXPECT_TRUE(json["pictures"][0]["psnr"].is_null());
  EXPECT_EQ(json["pictures"][1]["fewer_steps"]["largest_change"], 40);
  EXPECT_EQ(json["pictures"][1]["previews"][0]["step"], 3);
  EXPECT_EQ(json["pictures"][1]["prompt"], "a \"red\" <star>");
}

TEST(ComparisonPage, HasTheLeastAlikeFirstAndNoMarkupOfPrompts) {
  const std::string page = ComparisonPage(Two());
  EXPECT_LT(page.find("seed 8"), page.find("seed 7"));
  EXPECT_THAT(page, HasSubstr("a &quot;red&quot; &lt;star&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("<star>")));
  EXPECT_THAT(page, HasSubstr("data:image/png;base64,QQ=="));
  EXPECT_THAT(page, HasSubstr("data:image/png;base64,Qg=="));
}

}  // namespace
}  // namespace latentd::client
