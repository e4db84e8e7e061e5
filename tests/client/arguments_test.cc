#include "client/options/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/commands/command_options.h"
#include "client/options/files.h"
#include "client/options/graph_selection.h"
#include "client/options/request_options.h"
#include "core/base/files/tensor_file.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

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
  EXPECT_THAT(RequestOf({"--mask=/no/such/mask"}), StatusIs(kInvalid, HasSubstr("/no/such/mask")));
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

TEST(ArgumentsTest, AWrongAddressIsNamedWithItsOption) {
  Connection connection;
  const std::vector<OptionGroup> groups = {{"", {ServerOption(connection)}}};
  ASSERT_OK(ParseArguments(groups, {"--server", "host:1"}));
  EXPECT_EQ(connection.server, "host:1");
  EXPECT_THAT(ParseArguments(groups, {"--server=http://host:1"}),
              StatusIs(kInvalid, AllOf(HasSubstr("--server: "), HasSubstr("leave http:// out"))));
}

// A switch, one more, and an option with a value, each with a letter.
class LettersTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<std::string>> Parse(const std::vector<std::string>& arguments) {
    return ParseArguments({{"",
                            {WithLetter('q', {"quiet", "", "", SetSwitch(quiet_)}),
                             WithLetter('f', {"force", "", "", SetSwitch(force_)}),
                             WithLetter('o', {"output", "FILE", "", SetString(output_)})}}},
                          arguments);
  }

  bool quiet_ = false;
  bool force_ = false;
  std::string output_;
};

TEST_F(LettersTest, AreShortForTheirOptions) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"-o", "a.png"}, {"-oa.png"}, {"-o=a.png"}, {"--output=a.png"}}) {
    output_.clear();
    EXPECT_OK(Parse(arguments));
    EXPECT_EQ(output_, "a.png");
  }
  EXPECT_OK(Parse({"-o", "-"}));
  EXPECT_EQ(output_, "-");
}

TEST_F(LettersTest, OfSwitchesStandTogether) {
  ASSERT_OK_AND_ASSIGN(const auto others, Parse({"-qfo", "a.png", "word"}));
  EXPECT_TRUE(quiet_);
  EXPECT_TRUE(force_);
  EXPECT_EQ(output_, "a.png");
  EXPECT_THAT(others, ElementsAre("word"));
}

TEST_F(LettersTest, WhatIsWrongIsNamed) {
  EXPECT_THAT(Parse({"-o"}), StatusIs(kInvalid, HasSubstr("--output: needs a value, FILE")));
  EXPECT_THAT(Parse({"-z"}), StatusIs(kInvalid, HasSubstr("there is no option -z")));
  EXPECT_THAT(Parse({"-o=a", "--output=b"}), StatusIs(kInvalid, HasSubstr("given twice")));
  output_.clear();
  // And no file "utput" is written.
  for (const char* short_of_a_dash : {"-output", "-output=a.png", "-quiet", "-out"}) {
    EXPECT_THAT(Parse({short_of_a_dash, "a.png"}),
                StatusIs(kInvalid, HasSubstr("did you mean --")));
  }
  EXPECT_EQ(output_, "");
}

TEST_F(LettersTest, AreInTheHelp) {
  const std::string help =
      DescribeOptions({{"Title",
                        {WithLetter('o', {"output", "FILE", "where", SetString(output_)}),
                         {"quiet", "", "no words", SetSwitch(quiet_)}}}});
  EXPECT_THAT(help, HasSubstr("\n  -o, --output FILE "));
  EXPECT_THAT(help, HasSubstr("\n      --quiet "));
}

TEST(ArgumentsTest, AnUnknownOptionLeadsToTheOneThatWasMeant) {
  EXPECT_THAT(
      RequestOf({"--steps", "30"}),
      StatusIs(kInvalid, HasSubstr("no option --steps: did you mean --num-inference-steps?")));
  EXPECT_THAT(RequestOf({"--size=64x64"}), StatusIs(kInvalid, HasSubstr("--width and --height")));
  EXPECT_THAT(RequestOf({"-W64"}), StatusIs(kInvalid, HasSubstr("--width")));
  EXPECT_THAT(RequestOf({"-steps", "30"}), StatusIs(kInvalid, HasSubstr("--num-inference-steps")));
  EXPECT_THAT(RequestOf({"--bucket-policy=snapp"}),
              StatusIs(kInvalid, HasSubstr("did you mean snap?")));
}

TEST(ArgumentsTest, DurationsMayBeSeconds) {
  absl::Duration duration;
  const auto set = SetDuration(duration);
  for (const char* text : {"90", "90s", "1m30s"}) {
    EXPECT_OK(set(text));
    EXPECT_EQ(duration, absl::Seconds(90)) << text;
  }
  for (const char* text : {"0", "-5", "soon", ""}) {
    EXPECT_THAT(set(text), StatusIs(kInvalid, HasSubstr("60 (seconds)"))) << text;
  }
}

TEST(RequestOptionsTest, EveryKindOfFieldIsSet) {
  ASSERT_OK_AND_ASSIGN(
      const v1::GenerateRequest request,
      RequestOf({"--negative-prompt=no", "--guidance-scale", "4.5", "--seed=18446744073709551615",
                 "--seeds=1,2,3", "--sigmas=3,1.5", "--refine", "--use-karras-sigmas=false",
                 "--original-size=512x384", "--crops-coords-top-left=16,32", "--model=refiner",
                 "--guidance-interval=0.25,1", "--guidance-stop=auto", "--feature-cache-interval=3",
                 "--effort=fast"}));
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
  EXPECT_EQ(request.guidance_stop(), v1::GUIDANCE_STOP_AUTO);
  EXPECT_EQ(request.feature_cache_interval(), 3);
  EXPECT_EQ(request.effort(), v1::EFFORT_FAST);
  EXPECT_EQ(request.model(), "refiner");
}

TEST(RequestOptionsTest, EmbeddingsAreReadOfAFile) {
  const testing::TemporaryDirectory directory;
  const std::string file = directory.File("star.safetensors"), other = directory.File("other");
  ASSERT_OK(
      WriteFile(file,
                TensorFile(std::vector<NamedTensor>{{"prompt_embeds", "F16", {1, 2}, "1234"},
                                                    {"pooled_prompt_embeds", "F32", {1}, "5678"},
                                                    {"negative_prompt_embeds", "BF16", {1}, "90"}}),
                Overwrite::kNever));
  ASSERT_OK(WriteFile(other,
                      TensorFile(std::vector<NamedTensor>{{"x", "I8", {1}, "1"},
                                                          {"prompt_embeds", "I8", {1}, "1"}}),
                      Overwrite::kNever));
  ASSERT_OK_AND_ASSIGN(const v1::GenerateRequest request, RequestOf({"--prompt-embeds", file}));
  EXPECT_EQ(request.prompt_embeds().dtype(), v1::Tensor::DTYPE_FLOAT16);
  EXPECT_THAT(request.prompt_embeds().shape(), ElementsAre(1, 2));
  EXPECT_EQ(request.prompt_embeds().data(), "1234");
  EXPECT_EQ(request.pooled_prompt_embeds().data(), "5678");
  EXPECT_FALSE(request.has_negative_prompt_embeds());
  ASSERT_OK_AND_ASSIGN(const v1::GenerateRequest negative,
                       RequestOf({"--negative-prompt-embeds", file}));
  EXPECT_EQ(negative.negative_prompt_embeds().dtype(), v1::Tensor::DTYPE_BFLOAT16);
  EXPECT_EQ(negative.negative_prompt_embeds().data(), "90");
  EXPECT_FALSE(negative.has_negative_pooled_prompt_embeds());  // the file's are the positive ones
  EXPECT_THAT(RequestOf({"--prompt-embeds", other}),
              StatusIs(kInvalid, HasSubstr("must be of F32, F16 or BF16, is of I8")));
  EXPECT_THAT(RequestOf({"--pooled-prompt-embeds", other}),
              StatusIs(kInvalid, HasSubstr("has no tensor pooled_prompt_embeds; it has")));
  EXPECT_THAT(RequestOf({"--prompt-embeds", directory.File("none")}),
              StatusIs(kInvalid, HasSubstr("none")));
}

TEST(RequestOptionsTest, EveryFieldButThePromptAndTheOutputHasAnOption) {
  v1::GenerateRequest request;
  std::vector<std::string> names;
  for (const OptionGroup& group : RequestOptions(request)) {
    for (const Option& option : group.options) {
      EXPECT_FALSE(option.help.empty()) << option.name;
      names.push_back(absl::StrCat("--", option.name));
    }
  }
  std::vector<std::string> missing;
  const auto& type = *v1::GenerateRequest::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const std::string& name = type.field(i)->name();
    if (name == "prompt" || name == "output") continue;
    if (std::find(names.begin(), names.end(), OptionSpelling(name)) == names.end())
      missing.push_back(name);
  }
  EXPECT_THAT(missing, IsEmpty());
}

TEST(RequestOptionsTest, AnAdapterHasWeights) {
  ASSERT_OK_AND_ASSIGN(
      const v1::GenerateRequest request,
      RequestOf({"--adapter=film", "--adapter=styles/ink:0.8", "--adapter", "b:-1:0.5"}));
  ASSERT_EQ(request.adapters_size(), 3);
  EXPECT_EQ(request.adapters(0).name(), "film");
  EXPECT_FALSE(request.adapters(0).has_weight());
  EXPECT_EQ(request.adapters(1).name(), "styles/ink");
  EXPECT_EQ(request.adapters(1).weight(), 0.8);
  EXPECT_FALSE(request.adapters(1).has_text_encoder_weight());
  EXPECT_EQ(request.adapters(2).weight(), -1);
  EXPECT_EQ(request.adapters(2).text_encoder_weight(), 0.5);
  for (const char* wrong :
       {"--adapter=", "--adapter=:0.8", "--adapter=film:much", "--adapter=film:1:1:1"}) {
    EXPECT_THAT(RequestOf({wrong}), StatusIs(kInvalid, HasSubstr("NAME:WEIGHT"))) << wrong;
  }
}

TEST(RequestOptionsTest, AControlHasAnImageAndNumbers) {
  const ::latentd::testing::TemporaryDirectory folder;
  const std::string plain = folder.File("edges.png"), odd = folder.File("a:b.png");
  ::latentd::testing::WriteFile(plain, "edges");
  ::latentd::testing::WriteFile(odd, "odd");
  ASSERT_OK_AND_ASSIGN(
      const v1::GenerateRequest request,
      RequestOf({"--control=canny=" + plain, "--control=nets/depth=" + odd + ":0.7",
                 "--control=pose=" + plain + ":-1:0.25:0.5"}));
  ASSERT_EQ(request.controls_size(), 3);
  EXPECT_EQ(request.controls(0).name(), "canny");
  EXPECT_EQ(request.controls(0).image(), "edges");
  EXPECT_FALSE(request.controls(0).has_scale());
  EXPECT_EQ(request.controls(1).name(), "nets/depth");
  EXPECT_EQ(request.controls(1).image(), "odd");
  EXPECT_EQ(request.controls(1).scale(), 0.7);
  EXPECT_FALSE(request.controls(1).has_start());
  EXPECT_EQ(request.controls(2).scale(), -1);
  EXPECT_EQ(request.controls(2).start(), 0.25);
  EXPECT_EQ(request.controls(2).end(), 0.5);
  for (const std::string& wrong : {std::string("--control=canny"), std::string("--control=canny="),
                                   "--control==" + plain, "--control=canny=" + plain + ":1:0.5"}) {
    EXPECT_THAT(RequestOf({wrong.c_str()}), StatusIs(kInvalid, HasSubstr("NAME=FILE:SCALE")))
        << wrong;
  }
}

TEST(RequestOptionsTest, AControlOfAUnionHasAMode) {
  const ::latentd::testing::TemporaryDirectory folder;
  const std::string file = folder.File("a@b.png");
  ::latentd::testing::WriteFile(file, "edges");
  ASSERT_OK_AND_ASSIGN(const v1::GenerateRequest request,
                       RequestOf({"--control=nets/union@canny=" + file + ":0.7",
                                  "--control=union@0=" + file, "--control=canny=" + file}));
  ASSERT_EQ(request.controls_size(), 3);
  EXPECT_EQ(request.controls(0).name(), "nets/union");
  EXPECT_EQ(request.controls(0).control_mode(), 3);
  EXPECT_EQ(request.controls(0).scale(), 0.7);
  EXPECT_EQ(request.controls(1).name(), "union");
  EXPECT_TRUE(request.controls(1).has_control_mode());
  EXPECT_EQ(request.controls(1).control_mode(), 0);
  EXPECT_EQ(request.controls(2).name(), "canny");
  EXPECT_FALSE(request.controls(2).has_control_mode());
  const std::string wrong = "--control=union@cany=" + file;
  EXPECT_THAT(RequestOf({wrong}),
              StatusIs(kInvalid, HasSubstr("one of openpose, depth, hed, canny, normal, segment")));
}

TEST(RequestOptionsTest, AnIpAdapterHasAnImageAndAScale) {
  const ::latentd::testing::TemporaryDirectory folder;
  const std::string plain = folder.File("cat.png"), odd = folder.File("a:b.png");
  ::latentd::testing::WriteFile(plain, "cat");
  ::latentd::testing::WriteFile(odd, "odd");
  ASSERT_OK_AND_ASSIGN(
      const v1::GenerateRequest request,
      RequestOf({"--ip-adapter=sdxl/plus=" + plain + ":-0.6", "--ip-adapter=base=" + odd}));
  ASSERT_EQ(request.ip_adapters_size(), 2);
  EXPECT_EQ(request.ip_adapters(0).name(), "sdxl/plus");
  EXPECT_EQ(request.ip_adapters(0).image(), "cat");
  EXPECT_EQ(request.ip_adapters(0).scale(), -0.6);
  EXPECT_EQ(request.ip_adapters(1).image(), "odd");
  EXPECT_FALSE(request.ip_adapters(1).has_scale());
  EXPECT_EQ(request.ip_adapters(1).more_images_size(), 0);
  const std::string comma = folder.File("c,d.png");
  ::latentd::testing::WriteFile(comma, "comma");
  ASSERT_OK_AND_ASSIGN(
      const v1::GenerateRequest several,
      RequestOf({"--ip-adapter=base=" + plain + "," + odd + ":0.5", "--ip-adapter=base=" + comma}));
  EXPECT_EQ(several.ip_adapters(0).image(), "cat");
  EXPECT_THAT(several.ip_adapters(0).more_images(), ElementsAre("odd"));
  EXPECT_EQ(several.ip_adapters(0).scale(), 0.5);
  EXPECT_EQ(several.ip_adapters(1).image(), "comma");
  EXPECT_FALSE(RequestOf({"--ip-adapter=base=" + plain + "," + folder.File("none.png")}).ok());
  for (const std::string& wrong : {std::string("--ip-adapter=base"),
                                   std::string("--ip-adapter=base="), "--ip-adapter==" + plain}) {
    EXPECT_THAT(RequestOf({wrong.c_str()}), StatusIs(kInvalid, HasSubstr("NAME=FILE:SCALE")))
        << wrong;
  }
}

TEST(RequestOptionsTest, AnIpAdapterHasScalesByBlock) {
  const ::latentd::testing::TemporaryDirectory folder;
  const std::string plain = folder.File("cat.png");
  ::latentd::testing::WriteFile(plain, "cat");
  const std::string tree = R"({"up": {"block_0": [0, 1, 0]}, "mid": -0.5})";
  ASSERT_OK_AND_ASSIGN(const v1::GenerateRequest request,
                       RequestOf({"--ip-adapter=plus=" + plain + ":" + tree,
                                  "--ip-adapter=base=" + plain + ":0.6:" + tree}));
  ASSERT_EQ(request.ip_adapters_size(), 2);
  EXPECT_EQ(request.ip_adapters(0).image(), "cat");
  EXPECT_FALSE(request.ip_adapters(0).has_scale());
  EXPECT_EQ(request.ip_adapters(1).scale(), 0.6);
  for (const v1::IpAdapter& adapter : request.ip_adapters()) {
    ASSERT_EQ(adapter.scales_size(), 2);
    EXPECT_EQ(adapter.scales(0).block(), "mid");
    EXPECT_THAT(adapter.scales(0).values(), ElementsAre(-0.5));
    EXPECT_EQ(adapter.scales(1).block(), "up.block_0");
    EXPECT_THAT(adapter.scales(1).values(), ElementsAre(0, 1, 0));
  }
  for (const char* wrong : {"{", "{}", R"({"up": {}})", R"({"up": []})", R"({"up": "much"})",
                            R"({"up": [0, "much"]})", R"({"up": {"block_0": {"1": 1}}})"}) {
    EXPECT_THAT(RequestOf({"--ip-adapter=plus=" + plain + ":" + wrong}),
                StatusIs(kInvalid, HasSubstr("must have scales by block as diffusers has them")))
        << wrong;
  }
}

TEST(RequestOptionsTest, AnIpAdapterHasEmbeddings) {
  const ::latentd::testing::TemporaryDirectory folder;
  const NamedTensor embeds{"image_embeds", "F16", {2, 1, 1}, std::string("\0\x3c\0\x3d", 4)};
  const NamedTensor other{"other", "F32", {1}, std::string(4, '\0')};
  const std::string one = folder.File("one.safetensors"), named = folder.File("two"),
                    none = folder.File("none");
  ::latentd::testing::WriteFile(one, TensorFile({{{"cat", "F16", {2, 1, 1}, embeds.data}}}));
  ::latentd::testing::WriteFile(named, TensorFile({{other, embeds}}));
  ::latentd::testing::WriteFile(none, TensorFile({{other, {"cat", "F32", {1}, other.data}}}));
  ASSERT_OK_AND_ASSIGN(
      const v1::GenerateRequest request,
      RequestOf({"--ip-adapter=plus=" + one + ":0.5", "--ip-adapter=base=" + named}));
  EXPECT_EQ(request.ip_adapters(0).scale(), 0.5);
  for (const v1::IpAdapter& adapter : request.ip_adapters()) {
    EXPECT_EQ(adapter.image(), "");
    EXPECT_EQ(adapter.image_embeds().dtype(), v1::Tensor::DTYPE_FLOAT16);
    EXPECT_THAT(adapter.image_embeds().shape(), ElementsAre(2, 1, 1));
    EXPECT_EQ(adapter.image_embeds().data(), embeds.data);
  }
  EXPECT_THAT(RequestOf({"--ip-adapter=plus=" + none}),
              StatusIs(kInvalid, HasSubstr("has no tensor image_embeds; it has ")));
}

TEST(RequestOptionsTest, FieldsAreSpelledAsTheyAreTyped) {
  EXPECT_EQ(OptionSpelling("num_inference_steps"), "--num-inference-steps");
  EXPECT_EQ(OptionSpelling("output.quality"), "--quality");
  EXPECT_EQ(OptionSpelling("previews.every_n_steps"), "--previews");
  EXPECT_EQ(OptionSpelling("adapters[1].name"), "--adapter");
  EXPECT_EQ(OptionSpelling("controls[0].image"), "--control");
  EXPECT_EQ(OptionSpelling("ip_adapters[0].image"), "--ip-adapter");
  EXPECT_EQ(OptionSpelling("prompt"), "PROMPT");
  EXPECT_EQ(OptionSpelling("id"), "ID");
  EXPECT_EQ(OptionSpelling("selector.ids[3]"), "ID");
  EXPECT_EQ(OptionSpelling("selector.components[0]"), "--component");
  EXPECT_EQ(OptionSpelling("selector.buckets[1].width"), "--bucket");
}

}  // namespace
}  // namespace latentd::client
