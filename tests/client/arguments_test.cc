#include "client/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_replace.h"
#include "client/commands.h"
#include "client/graph_selection.h"
#include "client/request_options.h"
#include "tests/support/status_matchers.h"

namespace latentd::client {
namespace {

using ::latentd::testing::IsOk;
using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

absl::StatusOr<v1::GenerateRequest> RequestOf(const std::vector<std::string>& arguments) {
  v1::GenerateRequest request;
  const auto others = ParseArguments(RequestOptions(request), arguments);
  if (!others.ok()) return others.status();
  return request;
}

TEST(ArgumentsTest, OptionsAndOtherArgumentsMix) {
  v1::GenerateRequest request;
  ASSERT_OK_AND_ASSIGN(
      const auto others,
      ParseArguments(RequestOptions(request), {"one", "--width", "64", "two", "--height=32"}));
  EXPECT_THAT(others, ElementsAre("one", "two"));
  EXPECT_EQ(request.width(), 64);
  EXPECT_EQ(request.height(), 32);
}

TEST(ArgumentsTest, NothingIsAnOptionBehindTwoDashes) {
  v1::GenerateRequest request;
  ASSERT_OK_AND_ASSIGN(const auto others,
                       ParseArguments(RequestOptions(request), {"--", "--width"}));
  EXPECT_THAT(others, ElementsAre("--width"));
}

TEST(ArgumentsTest, ValuesMayStartWithADash) {
  ASSERT_OK_AND_ASSIGN(const v1::GenerateRequest request, RequestOf({"--width", "-8"}));
  EXPECT_EQ(request.width(), -8);
}

TEST(ArgumentsTest, WhatIsWrongIsNamed) {
  EXPECT_THAT(RequestOf({"--colour", "red"}), StatusIs(kInvalid, HasSubstr("--colour")));
  EXPECT_THAT(RequestOf({"-x"}), StatusIs(kInvalid, HasSubstr("-x")));
  EXPECT_THAT(RequestOf({"--width"}), StatusIs(kInvalid, HasSubstr("needs a value")));
  EXPECT_THAT(RequestOf({"--width=wide"}),
              StatusIs(kInvalid, HasSubstr("--width: must be a whole")));
  EXPECT_THAT(RequestOf({"--seed=-1"}), StatusIs(kInvalid, HasSubstr("--seed")));
  EXPECT_THAT(RequestOf({"--seeds=1,x"}), StatusIs(kInvalid, HasSubstr("--seeds")));
  EXPECT_THAT(RequestOf({"--original-size=12"}), StatusIs(kInvalid, HasSubstr("WIDTHxHEIGHT")));
  EXPECT_THAT(RequestOf({"--refine=maybe"}), StatusIs(kInvalid, HasSubstr("true or false")));
  EXPECT_THAT(RequestOf({"--image=/no/such/file"}), StatusIs(kInvalid, HasSubstr("/no/such/file")));
}

TEST(ArgumentsTest, AnOptionWithTwoValuesIsRefusedAndBothAreNamed) {
  EXPECT_THAT(RequestOf({"--seed=1", "--width=64", "--seed", "2"}),
              StatusIs(kInvalid, HasSubstr("--seed: is given twice, as '1' and as '2'")));
  EXPECT_THAT(RequestOf({"--seeds=1,2", "--seeds=3"}), StatusIs(kInvalid, HasSubstr("twice")));
  EXPECT_THAT(RequestOf({"--refine", "--refine=false"}), StatusIs(kInvalid, HasSubstr("twice")));
  EXPECT_THAT(RequestOf({"--seed=1", "--seed=1", "--refine", "--refine=true"}), IsOk());
}

TEST(ArgumentsTest, OptionsThatMayBeRepeatedAllCount) {
  ::latent::v1::GraphSelector selector;
  const std::vector<OptionGroup> groups = {SelectionOptions(selector)};
  ASSERT_OK(ParseArguments(groups, {"--bucket=64x64", "--bucket=96x64", "--component=vae_decoder",
                                    "--component=vae_encoder"}));
  EXPECT_EQ(selector.buckets_size(), 2);
  EXPECT_EQ(selector.components_size(), 2);
  EXPECT_THAT(ParseArguments(groups, {"--all=maybe"}),
              StatusIs(kInvalid, HasSubstr("--all: is true or false")));
}

TEST(ArgumentsTest, AnAddressHasAPortThatThereIs) {
  Connection connection;
  const std::vector<OptionGroup> groups = {{"", {ServerOption(connection)}}};
  for (const char* good : {"127.0.0.1:50051", "[::1]:1", "host.name:65535", "unix:/run/latentd",
                           "dns:///host.name:50051"}) {
    EXPECT_OK(ParseArguments(groups, {"--server", good})) << good;
    EXPECT_EQ(connection.server, good);
  }
  for (const char* bad : {"host:99999", "host:65536", "host:0", "host:-1", "host",
                          "host:", ":50051", "host:http", "unix:", ""}) {
    EXPECT_THAT(ParseArguments(groups, {"--server", bad}),
                StatusIs(kInvalid, AllOf(HasSubstr("--server"), HasSubstr("1 to 65535"))))
        << bad;
  }
}

TEST(RequestOptionsTest, EveryKindOfFieldIsSet) {
  ASSERT_OK_AND_ASSIGN(
      const v1::GenerateRequest request,
      RequestOf({"--negative-prompt=no", "--guidance-scale", "4.5", "--seed=18446744073709551615",
                 "--seeds=1,2,3", "--sigmas=3,1.5", "--refine", "--use-karras-sigmas=false",
                 "--original-size=512x384", "--crops-coords-top-left=16,32", "--model=refiner",
                 "--guidance-interval=0.25,1"}));
  EXPECT_EQ(request.negative_prompt(), "no");
  EXPECT_EQ(request.guidance_scale(), 4.5);
  EXPECT_EQ(request.seed(), 18446744073709551615u);
  EXPECT_THAT(request.seeds(), ElementsAre(1, 2, 3));
  EXPECT_THAT(request.sigmas(), ElementsAre(3, 1.5));
  EXPECT_TRUE(request.refine());
  EXPECT_TRUE(request.has_use_karras_sigmas());
  EXPECT_FALSE(request.use_karras_sigmas());
  EXPECT_EQ(request.original_size().width(), 512);
  EXPECT_EQ(request.original_size().height(), 384);
  EXPECT_EQ(request.crops_coords_top_left().top(), 16);
  EXPECT_EQ(request.crops_coords_top_left().left(), 32);
  EXPECT_EQ(request.guidance_interval().start(), 0.25);
  EXPECT_EQ(request.guidance_interval().stop(), 1);
  EXPECT_EQ(request.model(), v1::MODEL_REFINER);
}

TEST(RequestOptionsTest, EveryFieldButThePromptAndTheOutputHasAnOption) {
  v1::GenerateRequest request;
  std::vector<std::string> names;
  for (const OptionGroup& group : RequestOptions(request)) {
    for (const Option& option : group.options) {
      EXPECT_FALSE(option.help.empty()) << option.name;
      names.push_back(absl::StrReplaceAll(option.name, {{"-", "_"}}));
    }
  }
  std::vector<std::string> missing;
  const auto& type = *v1::GenerateRequest::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const std::string& name = type.field(i)->name();
    if (name == "prompt" || name == "output") continue;
    if (std::find(names.begin(), names.end(), name) == names.end()) missing.push_back(name);
  }
  EXPECT_THAT(missing, IsEmpty());
}

TEST(RequestOptionsTest, FieldsAreSpelledAsTheyAreTyped) {
  EXPECT_EQ(OptionSpelling("num_inference_steps"), "--num-inference-steps");
  EXPECT_EQ(OptionSpelling("output.quality"), "--quality");
  EXPECT_EQ(OptionSpelling("previews.every_n_steps"), "--previews");
  EXPECT_EQ(OptionSpelling("prompt"), "PROMPT");
  EXPECT_EQ(OptionSpelling("id"), "ID");
  EXPECT_EQ(OptionSpelling("selector.ids[3]"), "ID");
  EXPECT_EQ(OptionSpelling("selector.components[0]"), "--component");
  EXPECT_EQ(OptionSpelling("selector.buckets[1].width"), "--bucket");
}

}  // namespace
}  // namespace latentd::client
