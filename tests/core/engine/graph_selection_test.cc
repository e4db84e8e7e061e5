#include "core/engine/graph_selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<compiler::GraphInfo> Infos() {
  compiler::GraphInfo text{.id = "aaaaaa11", .label = {.component = "text_encoder"}};
  compiler::GraphInfo decoder{.id = "aaaaaa22",
                              .label = {.component = "vae_decoder", .width = 64, .height = 64}};
  compiler::GraphInfo step{
      .id = "bbbbbb33",
      .label = {.component = "unet_base", .part = "step", .width = 96, .height = 64}};
  return {text, decoder, step};
}

absl::StatusOr<std::vector<std::string>> IdsOf(const GraphSelector& selector) {
  const auto chosen = Select(selector, Infos());
  if (!chosen.ok()) return chosen.status();
  std::vector<std::string> ids;
  for (const auto& info : *chosen) ids.push_back(info.id);
  return ids;
}

TEST(GraphSelectionTest, TakesWhatAnyOfTheListsNamesOnce) {
  EXPECT_THAT(*IdsOf({.ids = {"bbbbbb"}, .components = {"unet_base", "text_encoder"}}),
              ElementsAre("aaaaaa11", "bbbbbb33"));
  EXPECT_THAT(*IdsOf({.buckets = {{64, 64}}}), ElementsAre("aaaaaa22"));
  EXPECT_THAT(*IdsOf({.all = true}), ElementsAre("aaaaaa11", "aaaaaa22", "bbbbbb33"));
}

TEST(GraphSelectionTest, RefusesAnEmptySelector) {
  EXPECT_THAT(IdsOf({}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("empty")));
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
  EXPECT_THAT(IdsOf({.components = {"vae"}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("vae_decoder")));
  EXPECT_THAT(*IdsOf({.components = {"vae_encoder"}}), ElementsAre());
}

TEST(GraphSelectionTest, NamesSomeOfMany) {
  EXPECT_EQ(NameSome({}), "");
  EXPECT_EQ(NameSome({"a", "b"}), "a; b");
  EXPECT_THAT(NameSome(std::vector<std::string>(30, "x")), HasSubstr("and 20 more"));
}

}  // namespace
}  // namespace latentd::engine
