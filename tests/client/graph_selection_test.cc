#include "client/options/graph_selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace latentd::client {
namespace {

using ::latent::v1::GraphSelector;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Status Select(const std::vector<std::string>& arguments, GraphSelector& selector) {
  const auto words = ParseArguments({SelectionOptions(selector)}, arguments);
  return words.ok() ? SelectGraphs(*words, selector) : words.status();
}

TEST(GraphSelectionTest, IdsComponentsAndBucketsAddUp) {
  GraphSelector selector;
  ASSERT_OK(Select(
      {"3f9a2c", "--component", "unet", "--model=refiner", "--bucket=320x192", "--bucket", "8x8"},
      selector));
  EXPECT_THAT(selector.ids(), ElementsAre("3f9a2c"));
  EXPECT_THAT(selector.components(), ElementsAre("unet"));
  EXPECT_THAT(selector.models(), ElementsAre("refiner"));
  ASSERT_EQ(selector.buckets_size(), 2);
  EXPECT_EQ(selector.buckets(0).width(), 320);
  EXPECT_EQ(selector.buckets(0).height(), 192);
  EXPECT_FALSE(selector.all());
}

TEST(GraphSelectionTest, ABucketOfVideosHasFrames) {
  GraphSelector selector;
  EXPECT_OK(Select({"--bucket", "1024x576x25", "--bucket", "64x64"}, selector));
  EXPECT_EQ(selector.buckets(0).num_frames(), 25);
  EXPECT_EQ(selector.buckets(1).num_frames(), 0);
}

TEST(GraphSelectionTest, NothingIsNotEverything) {
  GraphSelector selector;
  EXPECT_THAT(Select({}, selector).message(), HasSubstr("say which graphs"));
  EXPECT_OK(Select({"--all"}, selector));
  EXPECT_TRUE(selector.all());
}

TEST(GraphSelectionTest, ASizeIsNoId) {
  GraphSelector selector;
  EXPECT_THAT(Select({"64x64"}, selector).message(), HasSubstr("did you mean --bucket 64x64?"));
}

TEST(GraphSelectionTest, ABadBucketSaysWhatIsRight) {
  for (const char* bad : {"256", "x", "0x8", "axb", "256x", "-8x8", "8x8x0", "8x8x2x2"}) {
    GraphSelector selector;
    EXPECT_THAT(Select({"--bucket", bad}, selector).message(), HasSubstr("WIDTHxHEIGHT")) << bad;
  }
}

}  // namespace
}  // namespace latentd::client
