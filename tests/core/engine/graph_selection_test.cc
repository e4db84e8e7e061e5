#include "core/engine/reports/graph_selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "tests/support/status_matchers.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<compiler::GraphStatus> Infos() {
  compiler::GraphStatus text{.id = "aaaaaa11",
                             .label = {.model = "base", .component = "text_encoder"},
                             .users = {"base", "refiner"}};
  compiler::GraphStatus decoder{
      .id = "aaaaaa22",
      .label = {.model = "base", .component = "vae_decoder", .width = 64, .height = 64},
      .users = {"base"}};
  compiler::GraphStatus step{
      .id = "bbbbbb33",
      .label = {
          .model = "refiner", .component = "unet", .part = "step", .width = 96, .height = 64}};
  return {text, decoder, step};
}

// Both buckets are served and share the text encoder.
std::vector<BucketNeeds> Served() {
  return {{{64, 64}, {"aaaaaa11", "aaaaaa22"}}, {{96, 64}, {"aaaaaa11", "bbbbbb33"}}};
}

using Chosen = absl::StatusOr<std::vector<compiler::GraphStatus>>;

absl::StatusOr<std::vector<std::string>> IdsOf(const Chosen& chosen) {
  if (!chosen.ok()) return chosen.status();
  std::vector<std::string> ids;
  for (const auto& info : *chosen) ids.push_back(info.id);
  return ids;
}

absl::StatusOr<std::vector<std::string>> IdsOf(const GraphSelector& selector) {
  return IdsOf(Select(selector, Infos(), Served()));
}

absl::StatusOr<std::vector<std::string>> ReleasedBy(const GraphSelector& selector,
                                                    const std::string& kept) {
  return IdsOf(SelectToRelease(selector, Infos(), Served(), [&](const compiler::GraphStatus& info) {
    return absl::StrContains(kept, info.id);
  }));
}

TEST(GraphSelectionTest, TakesWhatAnyOfTheListsNamesOnce) {
  EXPECT_THAT(*IdsOf({.ids = {"bbbbbb"}, .components = {"unet", "text_encoder"}}),
              ElementsAre("aaaaaa11", "bbbbbb33"));
  EXPECT_THAT(*IdsOf({.all = true}), ElementsAre("aaaaaa11", "aaaaaa22", "bbbbbb33"));
}

TEST(GraphSelectionTest, ABucketMeansAllThatItNeeds) {
  EXPECT_THAT(*IdsOf({.buckets = {{64, 64}}}), ElementsAre("aaaaaa11", "aaaaaa22"));
  const GraphSelector selector = {.buckets = {{64, 64}}};
  // One that is not served, of which something is on disk.
  EXPECT_THAT(*IdsOf(Select(selector, Infos(), {})), ElementsAre("aaaaaa22"));
}

TEST(GraphSelectionTest, ReleasingABucketLeavesWhatAnotherOneStillNeeds) {
  const GraphSelector one = {.buckets = {{64, 64}}};
  EXPECT_THAT(*ReleasedBy(one, "bbbbbb33"), ElementsAre("aaaaaa22"));
  // Keeping the shared graph itself does not keep the other bucket.
  EXPECT_THAT(*ReleasedBy(one, "aaaaaa11 aaaaaa22"), ElementsAre("aaaaaa11", "aaaaaa22"));
  EXPECT_THAT(*ReleasedBy({.buckets = {{64, 64}, {96, 64}}}, "aaaaaa11 aaaaaa22 bbbbbb33"),
              ElementsAre("aaaaaa11", "aaaaaa22", "bbbbbb33"));
  // Named graphs are released though others need them.
  EXPECT_THAT(*ReleasedBy({.components = {"text_encoder"}, .buckets = {{64, 64}}}, "bbbbbb33"),
              ElementsAre("aaaaaa11", "aaaaaa22"));
  EXPECT_THAT(*ReleasedBy({.ids = {"aaaaaa11"}}, "bbbbbb33"), ElementsAre("aaaaaa11"));
}

TEST(GraphSelectionTest, ModelsKeepWhatOneOfThemUses) {
  // Users count, and of what only lies on disk the model that it was compiled for.
  EXPECT_THAT(*IdsOf({.models = {"refiner"}}), ElementsAre("aaaaaa11", "bbbbbb33"));
  EXPECT_THAT(*IdsOf({.models = {"base"}}), ElementsAre("aaaaaa11", "aaaaaa22"));
  EXPECT_THAT(*IdsOf({.models = {"base", "refiner"}}),
              ElementsAre("aaaaaa11", "aaaaaa22", "bbbbbb33"));
  EXPECT_THAT(*IdsOf({.all = true, .models = {"refiner"}}), ElementsAre("aaaaaa11", "bbbbbb33"));
  EXPECT_THAT(*IdsOf({.models = {"refiner"}, .components = {"unet", "vae_decoder"}}),
              ElementsAre("bbbbbb33"));
  EXPECT_THAT(*IdsOf({.models = {"refiner"}, .buckets = {{64, 64}}}), ElementsAre("aaaaaa11"));
  EXPECT_THAT(IdsOf({.models = {"another"}}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("another")));
}

TEST(GraphSelectionTest, ReleasingAModelLetsGoOfWhatBucketsNeed) {
  EXPECT_THAT(*ReleasedBy({.models = {"refiner"}}, "aaaaaa11 aaaaaa22 bbbbbb33"),
              ElementsAre("aaaaaa11", "bbbbbb33"));
  EXPECT_THAT(*ReleasedBy({.models = {"base"}, .buckets = {{64, 64}}}, "bbbbbb33"),
              ElementsAre("aaaaaa22"));
}

TEST(GraphSelectionTest, SaysWhyNothingNeedsAGraph) {
  std::vector<compiler::GraphStatus> known = Infos();
  known[2].label.dtype = device::DType::kBF16;
  compiler::GraphStatus other = known[2];
  EXPECT_EQ(WhyUnused(other, known, Served()), "");
  other.id = "dddddd44";
  other.key.build.backend = "reference";
  EXPECT_THAT(
      WhyUnused(other, known, Served()),
      HasSubstr("refiner unet step 96x64 rows 1 bf16: this one has backend reference, wanted"));
  other.label.dtype = device::DType::kF32;
  EXPECT_THAT(
      WhyUnused(other, known, Served()),
      HasSubstr("refiner unet step 96x64 rows 1 bf16: this one computes in fp32, wanted bf16"));
  std::swap(known[2].label.dtype, other.label.dtype);
  EXPECT_THAT(WhyUnused(other, known, Served()),
              HasSubstr("refiner unet step 96x64 rows 1: this one computes in bf16, wanted fp32"));
  other.label.width = 128;
  EXPECT_EQ(WhyUnused(other, known, Served()),
            "no bucket of this server needs refiner unet step 128x64 rows 1 bf16");
  // It is declared, and no longer served.
  EXPECT_THAT(WhyUnused(known[2], known, {}), HasSubstr("no bucket"));
}

TEST(GraphSelectionTest, RefusesWhatBeginsSeveralIds) {
  EXPECT_THAT(IdsOf({.ids = {"aaaaaa"}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"aaaaaa\" begins 2")));
  EXPECT_THAT(*IdsOf({.ids = {"aaaaaa2"}}), ElementsAre("aaaaaa22"));
}

TEST(GraphSelectionTest, NamesWhatIsNotThere) {
  EXPECT_THAT(IdsOf({.ids = {"cccccc"}}), StatusIs(absl::StatusCode::kNotFound, HasSubstr("cccc")));
  EXPECT_THAT(IdsOf({.buckets = {{8, 8}}}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("8x8")));
  EXPECT_THAT(*IdsOf({.components = {"vae_encoder"}}), ElementsAre());
}

}  // namespace
}  // namespace latentd::engine
