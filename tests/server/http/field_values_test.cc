#include "server/http/request/field_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "latent/v1/image_generation.pb.h"
#include "latent/v1/video_generation.pb.h"

namespace latentd::server::http {
namespace {

namespace v1 = ::latent::v1;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FieldValuesTest : public ::testing::Test {
 protected:
  // Says why it is wrong; empty: it was set.
  std::string Set(const std::string& field, const json& value) {
    request_.Clear();
    std::vector<FieldViolation> violations;
    SetField(field, value, request_, violations);
    if (violations.empty()) return "";
    EXPECT_EQ(violations.size(), 1u);
    EXPECT_EQ(violations.front().field, field);
    EXPECT_EQ(request_.ByteSizeLong(), 0u) << field << " is set all the same";
    return violations.front().description;
  }

  v1::GenerateRequest request_;
};

TEST_F(FieldValuesTest, FieldsAreThoseOfTheRequestItself) {
  const google::protobuf::Descriptor& pictures = *v1::GenerateRequest::descriptor();
  EXPECT_TRUE(IsField(pictures, "num_inference_steps"));
  EXPECT_TRUE(IsField(pictures, "output"));
  EXPECT_FALSE(IsField(pictures, "output.format"));
  EXPECT_FALSE(IsField(pictures, "numInferenceSteps"));
  EXPECT_FALSE(IsField(pictures, ""));
  EXPECT_FALSE(IsField(pictures, "num_frames"));
  EXPECT_TRUE(IsField(*v1::GenerateVideoRequest::descriptor(), "num_frames"));
}

TEST_F(FieldValuesTest, NullSetsNothing) {
  for (const char* field : {"prompt", "seed", "seeds", "image", "output", "bucket_policy"}) {
    EXPECT_EQ(Set(field, nullptr), "");
    EXPECT_EQ(request_.ByteSizeLong(), 0u) << field;
  }
}

TEST_F(FieldValuesTest, NumbersMayBeTexts) {
  EXPECT_EQ(Set("num_inference_steps", 7), "");
  EXPECT_EQ(request_.num_inference_steps(), 7);
  EXPECT_EQ(Set("num_inference_steps", "7"), "");
  EXPECT_EQ(request_.num_inference_steps(), 7);
  EXPECT_EQ(Set("num_inference_steps", 7.0), "");
  EXPECT_EQ(request_.num_inference_steps(), 7);
  EXPECT_EQ(Set("guidance_scale", "2.5"), "");
  EXPECT_EQ(request_.guidance_scale(), 2.5);
  EXPECT_EQ(Set("guidance_scale", 2), "");
  EXPECT_EQ(request_.guidance_scale(), 2);
  EXPECT_EQ(Set("seed", "18446744073709551615"), "");
  EXPECT_EQ(request_.seed(), 18446744073709551615u);
}

TEST_F(FieldValuesTest, ANumberThatCannotBeIsSaid) {
  EXPECT_EQ(Set("num_inference_steps", 7.5), "must be a whole number, is 7.5");
  EXPECT_EQ(Set("num_inference_steps", "many"), "must be a whole number, is \"many\"");
  EXPECT_EQ(Set("num_inference_steps", 3000000000), "must be a whole number, is 3000000000");
  EXPECT_EQ(Set("num_inference_steps", json::array({1})), "must be a whole number, is [1]");
  EXPECT_EQ(Set("seed", -2), "must be a whole number from 0 on, is -2");
  EXPECT_EQ(Set("guidance_scale", "strong"), "must be a number, is \"strong\"");
  EXPECT_EQ(Set("prompt", 5), "must be a text, is 5");
  EXPECT_EQ(Set("negative_prompt", json::object()), "must be a text, is {}");
}

TEST_F(FieldValuesTest, BooleansMayBeTexts) {
  for (const json& value : {json(true), json("true"), json("True"), json("1")}) {
    EXPECT_EQ(Set("use_karras_sigmas", value), "");
    EXPECT_TRUE(request_.use_karras_sigmas()) << value;
  }
  for (const json& value : {json(false), json("false"), json("FALSE"), json("0")}) {
    EXPECT_EQ(Set("use_karras_sigmas", value), "");
    EXPECT_TRUE(request_.has_use_karras_sigmas()) << value;
    EXPECT_FALSE(request_.use_karras_sigmas()) << value;
  }
  EXPECT_EQ(Set("use_karras_sigmas", "maybe"), "must be true or false, is \"maybe\"");
}

TEST_F(FieldValuesTest, AnEnumGoesByItsShortNameToo) {
  for (const char* name : {"snap", "SNAP", "BUCKET_POLICY_SNAP"}) {
    EXPECT_EQ(Set("bucket_policy", name), "");
    EXPECT_EQ(request_.bucket_policy(), v1::BUCKET_POLICY_SNAP) << name;
  }
  EXPECT_EQ(Set("bucket_policy", "cold_ok"), "");
  EXPECT_EQ(request_.bucket_policy(), v1::BUCKET_POLICY_COLD_OK);
  EXPECT_EQ(Set("bucket_policy", "any"), "must be one of exact, snap, cold_ok, is \"any\"");
  EXPECT_THAT(Set("bucket_policy", "unspecified"), HasSubstr("must be one of"));
}

TEST_F(FieldValuesTest, ListsAndMessagesMayBeTextsOfJson) {
  EXPECT_EQ(Set("seeds", json::array({1, 2})), "");
  EXPECT_THAT(request_.seeds(), ElementsAre(1u, 2u));
  EXPECT_EQ(Set("seeds", "[3, 4]"), "");
  EXPECT_THAT(request_.seeds(), ElementsAre(3u, 4u));
  EXPECT_EQ(Set("original_size", R"({"width": 64, "height": 32})"), "");
  EXPECT_EQ(request_.original_size().height(), 32);
  EXPECT_EQ(Set("output", {{"format", "FORMAT_WEBP"}, {"quality", 50}}), "");
  EXPECT_EQ(request_.output().quality(), 50);
}

TEST_F(FieldValuesTest, ATextOfJsonIsReadWithoutUsingTheStack) {
  const std::string open(200'000, '['), closed(200'000, ']');
  for (const char* field : {"seeds", "adapters", "output"}) {
    EXPECT_THAT(Set(field, open + closed), HasSubstr(", is \"[[[")) << field;
    EXPECT_THAT(Set(field, open), HasSubstr(", is \"[[[")) << field;
  }
}

TEST_F(FieldValuesTest, ATextOfJsonIsOneValue) {
  for (const char* text : {"", "[1],", "[1], \"b\": [2]", "[1]}, {\"b\": [2]", "[1]} [2]"}) {
    EXPECT_THAT(Set("seeds", text), HasSubstr("must be a list of numbers")) << text;
  }
  EXPECT_THAT(Set("output", R"({"quality": 1, "quality": 2})"), HasSubstr("must be an object"));
  EXPECT_EQ(request_.seeds_size(), 0);
}

TEST_F(FieldValuesTest, WhatIsWrongWithinAMessageIsSaid) {
  EXPECT_EQ(Set("guidance_interval", {{"begin", 1}}),
            "must be an object as protobuf's JSON has latent.v1.GuidanceInterval, is "
            "{\"begin\":1}");
  EXPECT_THAT(Set("output", "[1"), HasSubstr("must be an object"));
  EXPECT_THAT(Set("seeds", json::array({"a"})), HasSubstr("must be a list of numbers"));
  EXPECT_THAT(Set("adapters", json::array({5})), HasSubstr("must be a list of objects"));
}

TEST_F(FieldValuesTest, FilesInListsAreAsFieldsAre) {
  for (const char* image : {"cGljdHVyZQ==", "data:image/png;base64,cGljdHVyZQ=="}) {
    EXPECT_EQ(Set("controls", json::array({{{"name", "canny"}, {"image", image}}})), "");
    EXPECT_EQ(request_.controls(0).name(), "canny");
    EXPECT_EQ(request_.controls(0).image(), "picture");
  }
  EXPECT_EQ(Set("ip_adapters", json::array({{{"name", "plus"}, {"image", "cGljdHVyZQ=="}}})), "");
  EXPECT_EQ(request_.ip_adapters(0).image(), "picture");
  const json more = {"b3RoZXI=", "data:image/png;base64,cGljdHVyZQ=="};
  EXPECT_EQ(Set("ip_adapters", json::array({{{"image", "cGljdHVyZQ=="}, {"more_images", more}}})),
            "");
  EXPECT_THAT(request_.ip_adapters(0).more_images(), ElementsAre("other", "picture"));
  std::vector<FieldViolation> violations;
  const json fetched = {{"name", "canny"}, {"image", "https://example.org/edges.png"}};
  SetField("controls", json::array({json::object(), fetched}), request_, violations);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations.front().field, "controls[1].image");
  EXPECT_THAT(violations.front().description, HasSubstr("fetches no URL"));
  const json of_two = {{"more_images", {"cGljdHVyZQ==", "https://example.org/cat.png"}}};
  SetField("ip_adapters", json::array({of_two}), request_, violations);
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_EQ(violations.back().field, "ip_adapters[0].more_images[1]");
}

// diffusers' tree, or the list that the API has.
TEST_F(FieldValuesTest, ScalesByBlockAreATreeOrAList) {
  const json tree = {{"mid", 0.5}, {"up", {{"block_0", {0, 1, 0}}}}};
  const json list = json::array(
      {{{"block", "mid"}, {"values", {0.5}}}, {{"block", "up.block_0"}, {"values", {0, 1, 0}}}});
  for (const json& scales : {tree, list}) {
    request_.Clear();
    EXPECT_EQ(Set("ip_adapters", json::array({{{"name", "plus"}, {"scales", scales}}})), "");
    ASSERT_EQ(request_.ip_adapters(0).scales_size(), 2);
    EXPECT_EQ(request_.ip_adapters(0).scales(0).block(), "mid");
    EXPECT_THAT(request_.ip_adapters(0).scales(0).values(), ElementsAre(0.5));
    EXPECT_EQ(request_.ip_adapters(0).scales(1).block(), "up.block_0");
    EXPECT_THAT(request_.ip_adapters(0).scales(1).values(), ElementsAre(0, 1, 0));
  }
  EXPECT_THAT(Set("ip_adapters", json::array({{{"scales", {{"mid", "a"}}}}})),
              HasSubstr("must be a list of objects"));
  EXPECT_THAT(Set("ip_adapters", json::array({{{"scales", 0.5}}})),
              HasSubstr("must be a list of objects"));
}

TEST_F(FieldValuesTest, EmbeddingsInListsAreAsFieldsAre) {
  const json embeds = {{"dtype", "DTYPE_FLOAT16"}, {"shape", {2, 1, 1}}, {"data", "ADwAPQ=="}};
  EXPECT_EQ(Set("ip_adapters", json::array({{{"name", "plus"}, {"image_embeds", embeds}}})), "");
  EXPECT_EQ(request_.ip_adapters(0).image_embeds().dtype(), v1::Tensor::DTYPE_FLOAT16);
  EXPECT_THAT(request_.ip_adapters(0).image_embeds().shape(), ElementsAre(2, 1, 1));
  EXPECT_EQ(request_.ip_adapters(0).image_embeds().data(), std::string("\0\x3c\0\x3d", 4));
}

TEST_F(FieldValuesTest, FilesAreBase64) {
  const std::string bytes("\0\xff picture", 10);
  EXPECT_EQ(Set("image", absl::Base64Escape(bytes)), "");
  EXPECT_EQ(request_.image(), bytes);
  EXPECT_EQ(Set("mask_image", "data:image/png;base64," + absl::Base64Escape(bytes)), "");
  EXPECT_EQ(request_.mask_image(), bytes);
  EXPECT_EQ(Set("image", 5), "must be a text: base64, or a data: URL");
  EXPECT_EQ(Set("image", "*"), "is not base64");
  EXPECT_THAT(Set("latents", "https://a/b"), HasSubstr("fetches no URL"));
}

TEST(ValueTest, WholeNumbers) {
  EXPECT_EQ(IntegerOf(7), 7);
  EXPECT_EQ(IntegerOf(-7), -7);
  EXPECT_EQ(IntegerOf(7.0), 7);
  EXPECT_EQ(IntegerOf("7"), 7);
  EXPECT_EQ(IntegerOf("-1"), -1);
  EXPECT_EQ(IntegerOf(int64_t{9223372036854775807}), 9223372036854775807);
  for (const json& value :
       {json(7.5), json("7.5"), json(9223372036854775808u), json(1e17), json("1e17"), json(true),
        json(""), json("inf"), json("nan"), json(nullptr), json::array({7})}) {
    EXPECT_EQ(IntegerOf(value), std::nullopt) << value;
  }
}

TEST(ValueTest, NumbersAndBooleans) {
  EXPECT_EQ(NumberOf(0.5), 0.5);
  EXPECT_EQ(NumberOf(2), 2);
  EXPECT_EQ(NumberOf(" 0.5 "), 0.5);
  for (const json& value : {json("inf"), json("a"), json(false), json(nullptr)}) {
    EXPECT_EQ(NumberOf(value), std::nullopt) << value;
  }
  EXPECT_EQ(BooleanOf(true), true);
  EXPECT_EQ(BooleanOf("1"), true);
  EXPECT_EQ(BooleanOf("False"), false);
  for (const json& value : {json("yes"), json(1), json(""), json(nullptr)}) {
    EXPECT_EQ(BooleanOf(value), std::nullopt) << value;
  }
}

TEST(ValueTest, MessagesHaveLittleOfIt) {
  EXPECT_EQ(Excerpt("a"), "\"a\"");
  EXPECT_EQ(Excerpt(std::string(62, 'a')), "\"" + std::string(62, 'a') + "\"");
  EXPECT_EQ(Excerpt(std::string(1000, 'a')), "\"" + std::string(63, 'a') + "...");
}

}  // namespace
}  // namespace latentd::server::http
