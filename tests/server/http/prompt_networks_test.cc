#include "server/http/sdapi/prompt_networks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/status_matchers.h"

namespace latentd::server::http {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::StatusIs;

const std::vector<std::string>& Loras() {
  static const auto& names =
      *new std::vector<std::string>{"film", "styles/ink", "a/twin", "b/twin", "styles/film"};
  return names;
}

// The only adapter of "<lora:ITEMS>".
latent::v1::Adapter AdapterIn(const std::string& items) {
  const auto networks = TakeNetworks("<lora:" + items + ">", Loras());
  EXPECT_OK(networks) << items;
  if (!networks.ok() || networks->adapters.size() != 1) return {};
  EXPECT_EQ(networks->prompt, "");
  return networks->adapters.front();
}

TEST(PromptNetworksTest, TheyLeaveThePromptAndNothingElseDoes) {
  ASSERT_OK_AND_ASSIGN(const PromptNetworks networks,
                       TakeNetworks("a <lora:film:0.5> star, <lora:ink>(at night:1.2)", Loras()));
  EXPECT_EQ(networks.prompt, "a  star, (at night:1.2)");
  ASSERT_THAT(networks.adapters, SizeIs(2));
  EXPECT_EQ(networks.adapters[0].name(), "film");
  EXPECT_EQ(networks.adapters[1].name(), "styles/ink");
}

TEST(PromptNetworksTest, TextThatNamesNoneStays) {
  for (const char* prompt :
       {"", "a star", "<stormpainter> a star", "1 < 2 > 0", "<:>", "<lora:>", "< lora:film>",
        "<lora", "<lora:film", "<<", "a:b>", "(a:1.2) [b:c:0.5]"}) {
    ASSERT_OK_AND_ASSIGN(const PromptNetworks networks, TakeNetworks(prompt, Loras()));
    EXPECT_EQ(networks.prompt, prompt);
    EXPECT_THAT(networks.adapters, IsEmpty()) << prompt;
  }
  ASSERT_OK_AND_ASSIGN(const PromptNetworks second, TakeNetworks("a << <lora:film>", Loras()));
  EXPECT_EQ(second.prompt, "a << ");
}

// As extra_networks_lora.py of the web UI reads them.
TEST(PromptNetworksTest, WeightsAreThoseOfTheWebUi) {
  struct Case {
    const char* items;
    std::optional<double> weight, text_encoder_weight;
  };
  const Case kCases[] = {
      {"film", std::nullopt, std::nullopt},
      {"film:0.8", 0.8, std::nullopt},
      {"film:-1.5", -1.5, std::nullopt},
      {"film: 0.8 ", 0.8, std::nullopt},
      {"film:0.5:1", 1, 0.5},
      {"film:0.5:0.5", 0.5, std::nullopt},
      {"film:te=0.5", 0.5, std::nullopt},
      {"film:unet=0.5", 0.5, 1},
      {"film:te=0.5:unet=0.25", 0.25, 0.5},
      {"film:unet=0.25:te=0.5", 0.25, 0.5},
      {"film:0.5:unet=0.25", 0.25, 0.5},
      {"film:2:3:te=0.5", 3, 0.5},
      {"film:0:1", 1, 0},
  };
  for (const Case& expected : kCases) {
    const latent::v1::Adapter adapter = AdapterIn(expected.items);
    EXPECT_EQ(adapter.name(), "film") << expected.items;
    EXPECT_EQ(adapter.has_weight() ? std::optional(adapter.weight()) : std::nullopt,
              expected.weight)
        << expected.items;
    EXPECT_EQ(adapter.has_text_encoder_weight() ? std::optional(adapter.text_encoder_weight())
                                                : std::nullopt,
              expected.text_encoder_weight)
        << expected.items;
  }
}

TEST(PromptNetworksTest, ANameIsWholeOrTheLastPartOfOne) {
  EXPECT_EQ(AdapterIn("styles/ink").name(), "styles/ink");
  EXPECT_EQ(AdapterIn("ink").name(), "styles/ink");
  EXPECT_EQ(AdapterIn("film").name(), "film");
  EXPECT_EQ(AdapterIn("a/twin").name(), "a/twin");
  // The engine says that there is none.
  EXPECT_EQ(AdapterIn("nk").name(), "nk");
  EXPECT_THAT(TakeNetworks("<lora:twin:1>", Loras()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("<lora:twin:1>"), HasSubstr("a/twin and b/twin"))));
}

TEST(PromptNetworksTest, WhatWouldDrawSomethingElseIsRefused) {
  const std::pair<const char*, const char*> kCases[] = {
      {"<lora:film:x>", "no number"},
      {"<lora:film:>", "no number"},
      {"<lora:film:nan>", "no number"},
      {"<lora:film:1:inf>", "no number"},
      {"<lora:film:te=>", "no number"},
      {"<lora:film:1:1:8>", "nothing else"},
      {"<lora:film:dyn=8>", "nothing else"},
      {"<lora:film:lbw=MID>", "nothing else"},
      {"<lora:te=1>", "names no LoRA"},
      {"<hypernet:film:1>", "no networks but LoRAs"},
      {"<Lora:film:1>", "no networks but LoRAs"},
  };
  for (const auto& [prompt, why] : kCases) {
    EXPECT_THAT(TakeNetworks(prompt, Loras()), StatusIs(absl::StatusCode::kInvalidArgument,
                                                        AllOf(HasSubstr(prompt), HasSubstr(why))));
  }
  EXPECT_OK(TakeNetworks("<lyco:film:1>", Loras()));
}

}  // namespace
}  // namespace latentd::server::http
