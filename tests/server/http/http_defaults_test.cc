#include "server/http/request/http_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/http/hugging_face/hugging_face_dialect.h"
#include "server/http/openai/openai_request.h"
#include "server/http/sdapi/sdapi_request.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::http {
namespace {

namespace v1 = ::latent::v1;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::StatusIs;

constexpr char kFile[] = "cGljdHVyZQ==";

class HttpDefaultsTest : public ::testing::Test {
 protected:
  void SetDefaults(const std::string& text) {
    ASSERT_OK_AND_ASSIGN(offer_.defaults, ParseDefaults(text));
  }

  v1::GenerateRequest OpenAi(const std::string& body,
                             ImagesRoute route = ImagesRoute::kGenerations) {
    v1::GenerateRequest request;
    form_ = ImagesForm();
    EXPECT_OK(ReadImagesRequest({.method = "POST", .body = body}, route, offer_, request, form_));
    return request;
  }
  v1::GenerateRequest WebUi(const std::string& body, bool image_to_image = false) {
    v1::GenerateRequest request;
    SdapiForm form;
    EXPECT_OK(
        ReadSdapiRequest({.method = "POST", .body = body}, image_to_image, offer_, request, form));
    return request;
  }
  v1::GenerateRequest HuggingFace(const std::string& body) {
    v1::GenerateRequest request;
    HuggingFaceDialect dialect(offer_);
    EXPECT_OK(dialect.Read({.method = "POST", .headers = {{"Accept", "image/png"}}, .body = body},
                           request));
    return request;
  }

  Offer offer_ = {.models = {{"sd_xl", "base", 20}}};
  ImagesForm form_;
};

TEST_F(HttpDefaultsTest, AFieldThatIsNotSetIsTheDefault) {
  SetDefaults("num_inference_steps: 4 guidance_scale: 0 negative_prompt: 'blur'");
  for (const v1::GenerateRequest& request :
       {OpenAi(R"({"prompt": "a", "steps": null})"), WebUi(R"({"prompt": "a"})"),
        HuggingFace(R"({"inputs": "a"})")}) {
    EXPECT_EQ(request.num_inference_steps(), 4);
    EXPECT_TRUE(request.has_guidance_scale());
    EXPECT_EQ(request.negative_prompt(), "blur");
    EXPECT_EQ(request.bucket_policy(), v1::BUCKET_POLICY_SNAP);
  }
}

TEST_F(HttpDefaultsTest, ARequestsOwnFieldsStay) {
  SetDefaults(
      "num_inference_steps: 4 guidance_scale: 1 negative_prompt: 'blur' "
      "adapters { name: 'film' } output { format: FORMAT_WEBP quality: 50 }");
  const v1::GenerateRequest request = OpenAi(
      R"({"prompt": "a", "steps": 9, "guidance_scale": 0, "negative_prompt": "",
          "adapters": [{"name": "ink"}], "output_format": "png"})");
  EXPECT_EQ(request.num_inference_steps(), 9);
  EXPECT_EQ(request.guidance_scale(), 0);
  EXPECT_EQ(request.negative_prompt(), "");
  ASSERT_EQ(request.adapters_size(), 1);
  EXPECT_EQ(request.adapters(0).name(), "ink");
  // A message is taken whole or not at all.
  EXPECT_EQ(request.output().format(), v1::FORMAT_PNG);
  EXPECT_FALSE(request.output().has_quality());
}

TEST_F(HttpDefaultsTest, TheyGoBeforeThoseOfAnApi) {
  SetDefaults(
      "bucket_policy: BUCKET_POLICY_EXACT strength: 0.4 prompt_syntax: "
      "PROMPT_SYNTAX_COMPEL output { format: FORMAT_WEBP }");
  const std::string image = std::string(R"("image": ")") + kFile + "\"";
  const v1::GenerateRequest edit = OpenAi(R"({"prompt": "a", )" + image + "}", ImagesRoute::kEdits);
  EXPECT_EQ(edit.bucket_policy(), v1::BUCKET_POLICY_EXACT);
  EXPECT_EQ(edit.strength(), 0.4);
  EXPECT_EQ(form_.format, "webp");
  const v1::GenerateRequest web_ui =
      WebUi(R"({"prompt": "a", "init_images": [")" + std::string(kFile) + "\"]}", true);
  EXPECT_EQ(web_ui.strength(), 0.4);
  EXPECT_EQ(web_ui.prompt_syntax(), v1::PROMPT_SYNTAX_COMPEL);
  // Its client is answered with what it accepts.
  EXPECT_EQ(HuggingFace(R"({"inputs": "a"})").output().format(), v1::FORMAT_PNG);
}

TEST_F(HttpDefaultsTest, FieldsThatDoNotGoWithARequestAreLeftOut) {
  SetDefaults("strength: 0.4 num_inference_steps: 4 refine: true");
  EXPECT_FALSE(OpenAi(R"({"prompt": "a"})").has_strength());
  EXPECT_TRUE(OpenAi(R"({"prompt": "a"})").refine());
  EXPECT_FALSE(OpenAi(R"({"prompt": "a", "sigmas": [1, 0]})").has_num_inference_steps());
  const std::string image = std::string(R"("image": ")") + kFile + "\"";
  const v1::GenerateRequest masked =
      OpenAi(R"({"prompt": "a", "mask_image": ")" + std::string(kFile) + "\", " + image + "}",
             ImagesRoute::kEdits);
  EXPECT_FALSE(masked.has_strength());
  EXPECT_FALSE(masked.has_refine());
  SetDefaults("timesteps: 999 timesteps: 499");
  EXPECT_EQ(OpenAi(R"({"prompt": "a"})").timesteps_size(), 2);
  EXPECT_EQ(OpenAi(R"({"prompt": "a", "steps": 9})").timesteps_size(), 0);
  EXPECT_EQ(OpenAi(R"({"prompt": "a", "timesteps": [9]})").timesteps_size(), 1);
}

TEST_F(HttpDefaultsTest, ARequestsEffortIsAllOfIt) {
  SetDefaults("guidance_stop: GUIDANCE_STOP_AUTO feature_cache_interval: 2");
  EXPECT_TRUE(OpenAi(R"({"prompt": "a"})").has_guidance_stop());
  EXPECT_EQ(OpenAi(R"({"prompt": "a", "guidance_stop": "never"})").feature_cache_interval(), 2);
  for (const char* full :
       {R"({"prompt": "a", "effort": "full"})", R"({"prompt": "a", "quality": "high"})"}) {
    const v1::GenerateRequest request = OpenAi(full);
    EXPECT_EQ(request.effort(), v1::EFFORT_FULL);
    EXPECT_FALSE(request.has_guidance_stop() || request.has_feature_cache_interval());
  }
  SetDefaults("effort: EFFORT_HIGH");
  EXPECT_EQ(OpenAi(R"({"prompt": "a"})").effort(), v1::EFFORT_HIGH);
  EXPECT_EQ(OpenAi(R"({"prompt": "a", "quality": "low"})").effort(), v1::EFFORT_FAST);
}

// As many partials come as were asked for.
TEST_F(HttpDefaultsTest, PartialsGoByTheSteps) {
  SetDefaults("num_inference_steps: 4");
  const v1::GenerateRequest request =
      OpenAi(R"({"prompt": "a", "stream": true, "partial_images": 1})");
  EXPECT_EQ(request.previews().every_n_steps(), 2);
}

TEST_F(HttpDefaultsTest, WhatIsWrongIsNamed) {
  const std::pair<const char*, const char*> kCases[] = {
      {"num_inference_steps: 0", "num_inference_steps: must be"},
      {"num_inference_steps: x", "at 22"},
      {"no_such_field: 1", "no_such_field"},
      {"guidance_scale: 31", "guidance_scale: must be"},
      {"guidance_scale: nan", "guidance_scale"},
      {"strength: 2", "strength: must be"},
      {"output { quality: 50 }", "output.quality"},
      {"adapters { name: 'film' weight: 11 }", "adapters[0].weight"},
  };
  for (const auto& [text, why] : kCases) {
    EXPECT_THAT(ParseDefaults(text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(StartsWith("--http-defaults: "), HasSubstr(why))))
        << text;
  }
  EXPECT_OK(ParseDefaults(""));
  EXPECT_OK(ParseDefaults("feature_cache_interval: 3"));
  EXPECT_OK(ParseDefaults("refine: true denoising_end: 0.8 strength: 0.5 scheduler: 'euler'"));
}

TEST_F(HttpDefaultsTest, WhatIsEachRequestsOwnHasNoDefault) {
  for (const char* text : {"prompt: 'a'",
                           "image: 'a'",
                           "latents: 'a'",
                           "seed: 7",
                           "seeds: 7",
                           "request_id: 'a'",
                           "num_images_per_prompt: 2",
                           "model: 'base'",
                           "resumable: true",
                           "previews { every_n_steps: 1 }",
                           "prompt_embeds { shape: 1 }",
                           "prompt_2: 'a'",
                           "pooled_prompt_embeds { shape: 1 }",
                           "negative_prompt_embeds { shape: 1 }",
                           "negative_pooled_prompt_embeds { shape: 1 }",
                           "mask_image: 'a'",
                           "mask_blur: 4",
                           "padding_mask_crop: 8",
                           "preserve_unmasked: true",
                           "differential: true",
                           "guess_mode: true",
                           "denoising_start: 0.5"}) {
    const std::string name(text, std::string(text).find_first_of(": "));
    EXPECT_THAT(ParseDefaults(text), StatusIs(absl::StatusCode::kInvalidArgument,
                                              HasSubstr(name + ": is each request's own")))
        << text;
  }
}

}  // namespace
}  // namespace latentd::server::http
