#include "client/words/suggestions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "client/commands/commands.h"
#include "tests/support/status_matchers.h"

namespace latentd::client {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> OptionsOf(const CommandShape& shape) {
  std::vector<std::string> names;
  for (const Option& option : shape.options) names.push_back(option.name);
  return names;
}

TEST(SuggestionsTest, NamesOfOtherToolsLeadToOurs) {
  const std::vector<std::string> known = OptionsOf(GenerateShape());
  for (const auto& [typed, meant] :
       {std::pair("steps", "--num-inference-steps"), std::pair("size", "--width and --height"),
        std::pair("negative", "--negative-prompt"), std::pair("cfg", "--guidance-scale"),
        std::pair("cfg_scale", "--guidance-scale"), std::pair("sampler", "--scheduler"),
        std::pair("batch", "--num-images-per-prompt"),
        std::pair("count", "--num-images-per-prompt"), std::pair("init-image", "--image"),
        std::pair("mask-image", "--mask"), std::pair("W", "--width"), std::pair("H", "--height"),
        std::pair("host", "--server")}) {
    EXPECT_EQ(NearestOption(typed, known), meant) << typed;
  }
  EXPECT_THAT(NearestOption("prompt", known), HasSubstr("PROMPT"));
  EXPECT_THAT(NearestOption("lora", known), HasSubstr("--adapter"));
}

TEST(SuggestionsTest, OnlyWhatTheCommandHasIsSaid) {
  const std::vector<std::string> known = OptionsOf(HealthShape());
  for (const char* typed : {"steps", "size", "prompt", "num-inference-steps"}) {
    EXPECT_EQ(NearestOption(typed, known), "") << typed;
  }
  EXPECT_EQ(NearestOption("host", known), "--server");
}

TEST(SuggestionsTest, SlipsAreSeen) {
  const std::vector<std::string> known = OptionsOf(GenerateShape());
  for (const auto& [typed, meant] :
       {std::pair("sede", "--seed"), std::pair("Seed", "--seed"),
        std::pair("guidence-scale", "--guidance-scale"),
        std::pair("num_inference_steps", "--num-inference-steps"), std::pair("heigth", "--height"),
        std::pair("previw", "--previews"), std::pair("karras", "--use-karras-sigmas"),
        std::pair("num-inference", "--num-inference-steps"), std::pair("ouput", "--output")}) {
    EXPECT_EQ(NearestOption(typed, known), meant) << typed;
  }
  for (const char* typed : {"colour", "x", "", "zebra"})
    EXPECT_EQ(NearestOption(typed, known), "") << typed;
}

TEST(SuggestionsTest, Commands) {
  std::vector<std::string> known;
  for (const Command& command : Commands()) known.push_back(command.shape().name);
  for (const auto& [typed, meant] :
       {std::pair("genrate", "generate"), std::pair("gen", "generate"),
        std::pair("txt2img", "generate"), std::pair("capabilites", "capabilities"),
        std::pair("graph", "graphs"), std::pair("stats", "status"), std::pair("xyzzy", "")}) {
    EXPECT_EQ(NearestCommand(typed, known), meant) << typed;
  }
}

TEST(SuggestionsTest, ChoicesAreListedAndTheNearOneIsNamed) {
  const std::vector<std::string> choices = {"exact", "snap", "cold_ok"};
  ASSERT_OK_AND_ASSIGN(const std::string upper, ToChoice("SNAP", choices));
  EXPECT_EQ(upper, "snap");
  ASSERT_OK_AND_ASSIGN(const std::string dashed, ToChoice("cold-ok", choices));
  EXPECT_EQ(dashed, "cold_ok");
  EXPECT_THAT(ToChoice("snpa", choices), StatusIs(absl::StatusCode::kInvalidArgument,
                                                  AllOf(HasSubstr("exact, snap or cold_ok"),
                                                        HasSubstr("did you mean snap?"))));
  EXPECT_THAT(ToChoice("", choices),
              StatusIs(absl::StatusCode::kInvalidArgument, Not(HasSubstr("mean"))));
}

}  // namespace
}  // namespace latentd::client
