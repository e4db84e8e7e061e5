#include "server/http/sdapi/sdapi_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/errors/error_details.h"
#include "server/http/exchange/http_status.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::http {
namespace {

namespace v1 = ::latent::v1;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SdapiRequestTest : public ::testing::Test {
 protected:
  absl::Status ReadBody(const std::string& body, bool image_to_image) {
    request_.Clear();
    form_ = SdapiForm();
    return ReadSdapiRequest({.method = "POST", .body = body}, image_to_image, offer_, request_,
                            form_);
  }
  // A txt2img with a prompt and these members beside it.
  absl::Status Read(const std::string& members) {
    const std::string comma = members.empty() ? "" : ", ";
    return ReadBody(absl::StrCat(R"({"prompt": "a star")", comma, members, "}"), false);
  }
  absl::Status ReadImg2Img(const std::string& members) {
    return ReadBody(absl::StrCat(R"({"prompt": "a star", "init_images": [")",
                                 absl::Base64Escape("picture"), "\"]", members, "}"),
                    true);
  }

  static std::vector<std::string> NamesIn(const absl::Status& status) {
    std::vector<std::string> names;
    for (const FieldViolation& violation : GetFieldViolations(status)) {
      names.push_back(violation.field);
    }
    return names;
  }

  // The scheduler that is asked for.
  std::string SchedulerOf(const std::string& members) {
    EXPECT_OK(Read(members)) << members;
    return request_.scheduler();
  }

  const Offer offer_ = {.models = {{"sd_xl", "base", 20}, {"sd_refiner", "refiner", 30}},
                        .loras = {"film", "styles/ink"}};
  v1::GenerateRequest request_;
  SdapiForm form_;
};

TEST_F(SdapiRequestTest, NothingIsSetThatIsNotSaid) {
  ASSERT_OK(Read(R"("steps": null, "seed": -1, "sampler_name": "", "scheduler": null)"));
  v1::GenerateRequest expected;
  expected.set_prompt("a star");
  expected.set_bucket_policy(v1::BUCKET_POLICY_SNAP);
  expected.set_prompt_syntax(v1::PROMPT_SYNTAX_A1111);
  EXPECT_EQ(request_.DebugString(), expected.DebugString());
  EXPECT_TRUE(form_.send_images);
  EXPECT_THAT(form_.warnings, IsEmpty());
}

TEST_F(SdapiRequestTest, TheWebUisNamesAreFields) {
  ASSERT_OK(Read(R"("negative_prompt": "blur", "steps": "7", "cfg_scale": 4.5, "width": 64,
                    "height": "32", "seed": 5, "force_task_id": "mine", "send_images": false)"));
  EXPECT_EQ(request_.negative_prompt(), "blur");
  EXPECT_EQ(request_.num_inference_steps(), 7);
  EXPECT_EQ(request_.guidance_scale(), 4.5);
  EXPECT_EQ(request_.width(), 64);
  EXPECT_EQ(request_.height(), 32);
  EXPECT_EQ(request_.seed(), 5u);
  EXPECT_EQ(request_.request_id(), "mine");
  EXPECT_FALSE(form_.send_images);
  EXPECT_EQ(form_.names.at("num_inference_steps"), "steps");
  // An id that none can be is not taken, as the web UI takes any.
  ASSERT_OK(Read(R"json("force_task_id": "task(abc)")json"));
  EXPECT_EQ(request_.request_id(), "");
}

TEST_F(SdapiRequestTest, FieldsOfTheProtoGoByTheirNames) {
  ASSERT_OK(Read(R"("priority": -1, "bucket_policy": "exact", "prompt_syntax": "none",
                    "num_inference_steps": 9, "use_karras_sigmas": true)"));
  EXPECT_EQ(request_.priority(), -1);
  EXPECT_EQ(request_.bucket_policy(), v1::BUCKET_POLICY_EXACT);
  EXPECT_EQ(request_.prompt_syntax(), v1::PROMPT_SYNTAX_NONE);
  EXPECT_EQ(request_.num_inference_steps(), 9);
  EXPECT_TRUE(request_.use_karras_sigmas());
  EXPECT_THAT(NamesIn(Read(R"("steps": 7, "num_inference_steps": 9)")), ElementsAre("steps"));
}

TEST_F(SdapiRequestTest, LorasOfAPromptAreAdapters) {
  ASSERT_OK(
      ReadBody(R"({"prompt": "a star <lora:ink:0.5:1>", "adapters": [{"name": "film"}]})", false));
  EXPECT_EQ(request_.prompt(), "a star ");
  ASSERT_EQ(request_.adapters_size(), 2);
  EXPECT_EQ(request_.adapters(0).name(), "film");
  EXPECT_EQ(request_.adapters(1).name(), "styles/ink");
  EXPECT_EQ(request_.adapters(1).text_encoder_weight(), 0.5);
  EXPECT_EQ(form_.prompt, "a star <lora:ink:0.5:1>");
  EXPECT_EQ(form_.names.at("adapters[1].name"), "prompt");
  EXPECT_EQ(form_.names.count("adapters[0].name"), 0u);
  // No prompt is empty.
  ASSERT_OK(ReadBody(R"({"prompt": "<lora:film>"})", false));
  EXPECT_EQ(request_.prompt(), " ");
  EXPECT_EQ(form_.names.at("adapters"), "prompt");
  EXPECT_THAT(NamesIn(ReadBody(R"({"prompt": "<lora:film:x>"})", false)), ElementsAre("prompt"));
}

TEST_F(SdapiRequestTest, OtherTextIsNoLora) {
  ASSERT_OK(ReadBody(R"({"prompt": "a <lora:film>", "prompt_syntax": "none"})", false));
  EXPECT_EQ(request_.prompt(), "a <lora:film>");
  ASSERT_OK(ReadBody(R"({"prompt": "a", "negative_prompt": "<lora:film>"})", false));
  EXPECT_EQ(request_.negative_prompt(), "<lora:film>");
  EXPECT_EQ(request_.adapters_size(), 0);
  EXPECT_EQ(form_.prompt, "");
}

TEST_F(SdapiRequestTest, PicturesAreCountedByBoth) {
  ASSERT_OK(Read(R"("batch_size": 2, "n_iter": "3")"));
  EXPECT_EQ(request_.num_images_per_prompt(), 6);
  ASSERT_OK(Read(R"("batch_size": 1, "n_iter": 1)"));
  EXPECT_FALSE(request_.has_num_images_per_prompt());
  ASSERT_OK(Read(R"("n_iter": 2)"));
  EXPECT_EQ(form_.names.at("num_images_per_prompt"), "n_iter");
  for (const char* count : {"0", "-1", "1.5", "\"many\"", "100000", "true"}) {
    EXPECT_THAT(NamesIn(Read(absl::StrCat(R"("batch_size": )", count))), ElementsAre("batch_size"))
        << count;
  }
}

TEST_F(SdapiRequestTest, ASamplerAndItsScheduleAreOneName) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"("sampler_name": "Euler a")", "Euler a"},
      {R"("sampler_index": "Euler a")", "Euler a"},
      {R"("sampler_name": "Heun", "sampler_index": "Euler a")", "Heun"},
      {R"("sampler_name": "", "sampler_index": "Euler a")", "Euler a"},
      {R"("sampler_name": null, "sampler_index": "Euler a")", "Euler a"},
      {R"("sampler_name": "DPM++ 2M Karras")", "DPM++ 2M Karras"},
      {R"("sampler_name": "DPM++ 2M", "scheduler": "Karras")", "DPM++ 2M + Karras"},
      {R"("sampler_name": "DPM++ 2M", "scheduler": "SGM Uniform")", "DPM++ 2M + SGM Uniform"},
      {R"("sampler_name": "DPM++ 2M", "scheduler": "Automatic")", "DPM++ 2M"},
      {R"("sampler_name": "DPM++ 2M", "scheduler": "uniform")", "DPM++ 2M"},
      {R"("sampler_name": "DPM++ 2M", "scheduler": "normal")", "DPM++ 2M"},
      {R"("sampler_name": "DPM++ 2M", "scheduler": "")", "DPM++ 2M"},
      {R"("scheduler": "karras")", "Euler + karras"},
      {R"("scheduler": "automatic")", ""},
  };
  for (const auto& [members, scheduler] : kCases) {
    EXPECT_EQ(SchedulerOf(members), scheduler) << members;
  }
  // As the error is to name it.
  SchedulerOf(R"("sampler_name": "x", "scheduler": "karras")");
  EXPECT_EQ(form_.names.at("scheduler"), "scheduler");
  SchedulerOf(R"("sampler_name": "x")");
  EXPECT_EQ(form_.names.at("scheduler"), "sampler_name");
}

TEST_F(SdapiRequestTest, ASamplerThatIsNoTextIsNotPassedOver) {
  EXPECT_THAT(NamesIn(Read(R"("sampler_name": 5)")), ElementsAre("sampler_name"));
  EXPECT_THAT(NamesIn(Read(R"("sampler_name": null, "sampler_index": 0)")),
              ElementsAre("sampler_index"));
  EXPECT_THAT(NamesIn(Read(R"("sampler_name": "Euler", "scheduler": ["karras"])")),
              ElementsAre("scheduler"));
}

TEST_F(SdapiRequestTest, EtaIsForDdimAlone) {
  ASSERT_OK(Read(R"("sampler_name": "DDIM", "eta": 0.5)"));
  EXPECT_EQ(request_.eta(), 0.5);
  ASSERT_OK(Read(R"("sampler_name": "Euler a", "eta": 1.0)"));
  EXPECT_FALSE(request_.has_eta());
}

TEST_F(SdapiRequestTest, ClipSkipIsAsTheWebUiCounts) {
  for (const char* none : {"0", "1", "\"1\""}) {
    ASSERT_OK(Read(absl::StrCat(R"("clip_skip": )", none)));
    EXPECT_FALSE(request_.has_clip_skip_a1111()) << none;
  }
  ASSERT_OK(Read(R"("override_settings": {"CLIP_stop_at_last_layers": 2})"));
  EXPECT_EQ(request_.clip_skip_a1111(), 2);
  EXPECT_EQ(form_.names.at("clip_skip_a1111"), "override_settings.CLIP_stop_at_last_layers");
}

TEST_F(SdapiRequestTest, SettingsOfOneRequest) {
  ASSERT_OK(Read(R"("override_settings": {"sd_model_checkpoint": "sd_refiner", "sd_vae": "None",
                    "x": 1, "y": null})"));
  EXPECT_EQ(request_.model(), "refiner");
  EXPECT_THAT(form_.warnings, ElementsAre("override_settings.x was not read"));
  EXPECT_EQ(GetReason(Read(R"("override_settings": {"sd_model_checkpoint": "flux"})")),
            kModelNotFound);
  EXPECT_EQ(GetReason(Read(R"("override_settings": {"sd_model_checkpoint": 5})")), kModelNotFound);
  EXPECT_THAT(NamesIn(Read(R"("override_settings": {"sd_vae": "x"})")),
              ElementsAre("override_settings.sd_vae"));
  EXPECT_THAT(NamesIn(Read(R"("override_settings": 5)")), ElementsAre("override_settings"));
}

TEST_F(SdapiRequestTest, ARefinerIsServedOrRefused) {
  ASSERT_OK(Read(R"("refiner_checkpoint": "sd_refiner", "refiner_switch_at": 0.7)"));
  EXPECT_TRUE(request_.refine());
  EXPECT_EQ(request_.denoising_end(), 0.7);
  for (const char* none : {"\"\"", "\"None\"", "null"}) {
    ASSERT_OK(Read(absl::StrCat(R"("refiner_switch_at": 0.7, "refiner_checkpoint": )", none)));
    EXPECT_FALSE(request_.has_refine()) << none;
    EXPECT_FALSE(request_.has_denoising_end()) << none;
  }
  for (const char* other : {"sd_xl", "flux"}) {
    EXPECT_THAT(NamesIn(Read(absl::StrCat(R"("refiner_checkpoint": ")", other, "\""))),
                ElementsAre("refiner_checkpoint"))
        << other;
  }
}

// Each with a value that draws as this server does, and one that does not.
TEST_F(SdapiRequestTest, WhatWouldDrawSomethingElseIsRefusedByName) {
  struct Case {
    const char* key;
    std::vector<const char*> same;
    const char* other;
  };
  const Case kCases[] = {
      {"tiling", {"false"}, "true"},
      {"restore_faces", {"false"}, "true"},
      {"enable_hr", {"false"}, "true"},
      {"inpainting_mask_invert", {"0", "false"}, "1"},
      {"subseed_strength", {"0", "0.0"}, "0.1"},
      {"script_name", {"\"\"", "\"None\""}, "\"x\""},
      {"alwayson_scripts", {"{}"}, R"({"a": {}})"},
      {"styles", {"[]"}, R"(["a"])"},
      {"resize_mode", {"0"}, "1"},
      {"s_churn", {"0", "0.0"}, "0.5"},
      {"s_min_uncond", {"0", "0.0"}, "0.5"},
      {"seed_resize_from_w", {"-1", "0"}, "64"},
      {"seed_resize_from_h", {"-1", "0"}, "64"},
  };
  for (const auto& [key, same, other] : kCases) {
    const std::string begin = absl::StrCat("\"", key, "\": ");
    const absl::Status refused = Read(begin + other);
    EXPECT_EQ(GetReason(refused), kUnsupportedValue) << key;
    EXPECT_THAT(NamesIn(refused), ElementsAre(key));
    EXPECT_OK(Read(begin + "null")) << key;
    for (const char* value : same) EXPECT_OK(Read(begin + value)) << key << " " << value;
    EXPECT_THAT(form_.warnings, IsEmpty()) << key;
  }
}

TEST_F(SdapiRequestTest, OtherKeysAreWarningsAndHarmlessOnesNot) {
  ASSERT_OK(Read(R"("hr_scale": 2, "hr_upscaler": "x", "save_images": true, "subseed": 5,
                    "s_noise": 1, "do_not_save_grid": true, "mask_blur": 4,
                    "override_settings_restore_afterwards": false)"));
  EXPECT_THAT(form_.warnings, IsEmpty());
  ASSERT_OK(Read(absl::StrCat(R"("x": 1, ")", std::string(1000, 'y'), R"(": 1, "z": null)")));
  EXPECT_THAT(form_.warnings,
              ElementsAre("x was not read", std::string(64, 'y') + " was not read"));
}

TEST_F(SdapiRequestTest, KeysThatAreNotReadHaveTheirTypes) {
  for (const char* member :
       {R"("save_images": "maybe")", R"("do_not_save_grid": 2)", R"("subseed": 1.5)",
        R"("mask_blur": [4])", R"("s_noise": "much")", R"("s_tmax": true)", R"("eta": {})",
        R"("hr_scale": "large")", R"("hr_prompt": 5)", R"("sampler_index": 5)",
        R"("script_args": {})", R"("comments": [])", R"("send_images": 7)", R"("force_task_id": 5)",
        R"("refiner_checkpoint": [])", R"("denoising_strength": "half")"}) {
    const std::string name(absl::StripPrefix(absl::string_view(member), "\""));
    EXPECT_THAT(NamesIn(Read(member)), ElementsAre(name.substr(0, name.find('"')))) << member;
  }
  EXPECT_OK(
      Read(R"members("save_images": 1, "do_not_save_grid": "False", "subseed": "-1", "s_noise": "1",
                    "hr_scale": 2, "hr_new": [], "send_images": "true", "script_args": [],
                    "comments": {}, "force_task_id": "task(a)", "eta": 0.5)members"));
}

TEST_F(SdapiRequestTest, AnImg2ImgStartsFromOnePicture) {
  ASSERT_OK(ReadImg2Img(""));
  EXPECT_EQ(request_.image(), "picture");
  EXPECT_EQ(request_.strength(), 0.75);
  ASSERT_OK(ReadImg2Img(R"(, "denoising_strength": 0.3)"));
  EXPECT_EQ(request_.strength(), 0.3);
  for (const char* images : {"[]", "[\"AAAA\", \"AAAA\"]", "\"AAAA\"", "{}"}) {
    const std::string body = absl::StrCat(R"({"prompt": "a", "init_images": )", images, "}");
    EXPECT_THAT(NamesIn(ReadBody(body, true)), ::testing::Contains("init_images")) << images;
  }
  EXPECT_THAT(NamesIn(ReadBody(R"({"prompt": "a"})", true)), ElementsAre("init_images"));
}

TEST_F(SdapiRequestTest, AMaskIsReadAsTheWebUiDoes) {
  ASSERT_OK(ReadImg2Img(R"(, "mask": "AAAA")"));
  EXPECT_EQ(request_.mask_image(), std::string(3, '\0'));
  EXPECT_EQ(request_.mask_blur(), 4);
  EXPECT_TRUE(request_.has_padding_mask_crop());
  EXPECT_EQ(request_.padding_mask_crop(), 0);
  EXPECT_FALSE(request_.preserve_unmasked());
  EXPECT_THAT(form_.warnings, IsEmpty());
  ASSERT_OK(ReadImg2Img(R"(, "mask": "AAAA", "mask_blur": "9", "inpaint_full_res": 1,
                            "inpaint_full_res_padding": 32, "inpainting_fill": 1)"));
  EXPECT_EQ(request_.mask_blur(), 9);
  EXPECT_EQ(request_.padding_mask_crop(), 32);
  EXPECT_THAT(form_.warnings, IsEmpty());
  for (const char* no : {"false", "0", "\"False\""}) {
    ASSERT_OK(ReadImg2Img(absl::StrCat(
        R"(, "mask": "AAAA", "inpaint_full_res_padding": 32, "inpaint_full_res": )", no)));
    EXPECT_FALSE(request_.has_padding_mask_crop()) << no;
    EXPECT_TRUE(request_.preserve_unmasked()) << no;
  }
  ASSERT_OK(ReadImg2Img(R"(, "mask": "AAAA", "inpainting_fill": 2)"));
  EXPECT_THAT(form_.warnings, ElementsAre(HasSubstr("inpainting_fill 2 was read as 1")));
}

TEST_F(SdapiRequestTest, ADifferentialMaskHasNoCropAndKeepsNothing) {
  ASSERT_OK(ReadImg2Img(R"(, "mask": "AAAA", "differential": true)"));
  EXPECT_TRUE(request_.differential());
  EXPECT_EQ(request_.mask_blur(), 4);
  EXPECT_FALSE(request_.has_padding_mask_crop());
  EXPECT_FALSE(request_.preserve_unmasked());
  EXPECT_THAT(form_.warnings, IsEmpty());
  ASSERT_OK(ReadImg2Img(R"(, "mask": "AAAA", "differential": true, "inpaint_full_res": false,
                            "inpaint_full_res_padding": 32, "inpainting_fill": 2)"));
  EXPECT_FALSE(request_.has_padding_mask_crop());
  EXPECT_FALSE(request_.preserve_unmasked());
  EXPECT_THAT(form_.warnings, ElementsAre(HasSubstr("inpainting_fill 2"),
                                          HasSubstr("inpaint_full_res was not read"),
                                          HasSubstr("inpaint_full_res_padding was not read")));
  // A crop by the field's own name stays, for the engine to refuse.
  ASSERT_OK(ReadImg2Img(R"(, "mask": "AAAA", "differential": true, "padding_mask_crop": 7)"));
  EXPECT_EQ(request_.padding_mask_crop(), 7);
}

TEST_F(SdapiRequestTest, AMaskByTheFieldsNameHasNoneOfItsDefaults) {
  ASSERT_OK(ReadImg2Img(R"(, "mask_image": "AAAA")"));
  EXPECT_FALSE(request_.has_mask_blur());
  EXPECT_FALSE(request_.has_padding_mask_crop());
  ASSERT_OK(ReadImg2Img(R"(, "mask_image": "AAAA", "mask_blur": 2, "padding_mask_crop": 7)"));
  EXPECT_EQ(request_.mask_blur(), 2);
  EXPECT_EQ(request_.padding_mask_crop(), 7);
}

TEST_F(SdapiRequestTest, ATxt2ImgHasNoMask) {
  ASSERT_OK(Read(R"("mask": "AAAA", "mask_blur": 4)"));
  EXPECT_FALSE(request_.has_mask_image());
  EXPECT_FALSE(request_.has_mask_blur());
  EXPECT_THAT(form_.warnings, ElementsAre("mask was not read: it is for img2img"));
}

TEST_F(SdapiRequestTest, ATxt2ImgHasNone) {
  ASSERT_OK(Read(R"("init_images": ["AAAA"], "denoising_strength": 0.3)"));
  EXPECT_FALSE(request_.has_image());
  EXPECT_FALSE(request_.has_strength());
  EXPECT_THAT(form_.warnings, ElementsAre("init_images was not read: it is for img2img"));
}

TEST_F(SdapiRequestTest, TheEchoHasNoPicture) {
  ASSERT_OK(ReadImg2Img(R"(, "steps": "7", "mask_image": "AAAA", "x": [1], "eta": null)"));
  const json expected = {{"prompt", "a star"},
                         {"init_images", nullptr},
                         {"mask_image", nullptr},
                         {"steps", "7"},
                         {"x", {1}}};
  EXPECT_EQ(form_.parameters, expected);
}

TEST_F(SdapiRequestTest, AllThatIsWrongIsNamedTogether) {
  EXPECT_THAT(NamesIn(Read(R"("steps": "many", "enable_hr": true, "batch_size": 0)")),
              ::testing::UnorderedElementsAre("steps", "enable_hr", "batch_size"));
  EXPECT_EQ(GetReason(ReadBody("[]", false)), "MALFORMED");
}

}  // namespace
}  // namespace latentd::server::http
