// Answers to clients of the web UI: pictures with their info, and the lists that they ask for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/errors/error_details.h"
#include "server/http/exchange/error_body.h"
#include "server/http/sdapi/sdapi_dialect.h"
#include "server/http/sdapi/sdapi_lists.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::http {
namespace {

namespace v1 = ::latent::v1;
using nlohmann::json;
using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

const std::vector<ServedModel>& TwoModels() {
  static const auto& models =
      *new std::vector<ServedModel>{{"sd_xl", "base", 20}, {"sd_refiner", "refiner", 30}};
  return models;
}

Drawn TwoPictures() {
  Drawn drawn = {.request_id = "mine", .created = absl::UnixEpoch()};
  for (int i = 0; i < 2; ++i) {
    drawn.images.push_back(std::make_shared<const engine::Event>(engine::Image{
        .index = i, .seed = 7u + i, .size = {64, 32}, .bytes = i == 0 ? "abc" : "abcd"}));
  }
  v1::GenerateRequest& request = *drawn.completed.mutable_parameters();
  request.set_prompt("a star");
  request.set_negative_prompt("blur");
  request.set_num_inference_steps(20);
  request.set_guidance_scale(4.5);
  request.set_scheduler("euler_a");
  drawn.completed.add_warnings("of the engine");
  return drawn;
}

class SdapiAnswerTest : public ::testing::Test {
 protected:
  json Show(const std::string& request, const Drawn& drawn) {
    SdapiDialect dialect(false, {.models = TwoModels(), .loras = {"film"}}, "1.2");
    v1::GenerateRequest read;
    EXPECT_OK(dialect.Read({.method = "POST", .body = request}, read));
    Answer answer = dialect.Show(drawn);
    EXPECT_EQ(answer.code, 200);
    EXPECT_EQ(answer.content_type, "application/json");
    std::string text;
    while (!answer.body.empty()) text += answer.body.Take();
    return json::parse(text, nullptr, /*allow_exceptions=*/false);
  }
};

TEST_F(SdapiAnswerTest, APromptIsAsItWasSentWithItsLoras) {
  const json body = Show(R"({"prompt": "a star <lora:film:0.5>"})", TwoPictures());
  const json info = json::parse(body["info"].get<std::string>());
  EXPECT_EQ(info["prompt"], "a star <lora:film:0.5>");
  EXPECT_EQ(info["all_prompts"][1], "a star <lora:film:0.5>");
  EXPECT_THAT(info["infotexts"][0].get<std::string>(),
              ::testing::StartsWith("a star <lora:film:0.5>\n"));
}

TEST_F(SdapiAnswerTest, PicturesComeWithWhatTheyAre) {
  const json answer = Show(R"({"prompt": "a star", "steps": "20", "x": 1})", TwoPictures());
  EXPECT_EQ(answer["images"], json::array({"YWJj", "YWJjZA=="}));
  const json echo = {{"prompt", "a star"}, {"steps", "20"}, {"x", 1}};
  EXPECT_EQ(answer["parameters"], echo);
  const json info = json::parse(answer["info"].get<std::string>(), nullptr, false);
  const json expected = {{"prompt", "a star"},
                         {"all_prompts", json::array({"a star", "a star"})},
                         {"negative_prompt", "blur"},
                         {"all_negative_prompts", json::array({"blur", "blur"})},
                         {"seed", 7},
                         {"all_seeds", json::array({7, 8})},
                         {"width", 64},
                         {"height", 32},
                         {"sampler_name", "euler_a"},
                         {"cfg_scale", 4.5},
                         {"steps", 20},
                         {"batch_size", 2},
                         {"sd_model_name", "sd_xl"},
                         {"denoising_strength", nullptr},
                         {"clip_skip", 1},
                         {"infotexts", info["infotexts"]},
                         {"index_of_first_image", 0},
                         {"job_timestamp", "19700101000000"},
                         {"version", "latentd 1.2"},
                         {"request_id", "mine"},
                         {"warnings", json::array({"of the engine", "x was not read"})}};
  EXPECT_EQ(info, expected);
  ASSERT_EQ(info["infotexts"].size(), 2u);
  EXPECT_EQ(info["infotexts"][1],
            "a star\nNegative prompt: blur\nSteps: 20, Sampler: euler_a, CFG scale: 4.5, Seed: 8, "
            "Size: 64x32, Version: latentd 1.2");
}

TEST_F(SdapiAnswerTest, WhatWasSetIsInTheInfo) {
  Drawn drawn = TwoPictures();
  v1::GenerateRequest& request = *drawn.completed.mutable_parameters();
  request.set_strength(0.5);
  request.set_clip_skip_a1111(2);
  request.set_model("refiner");
  const json answer = Show(R"({"prompt": "a"})", drawn);
  const json info = json::parse(answer["info"].get<std::string>(), nullptr, false);
  EXPECT_EQ(info["denoising_strength"], 0.5);
  EXPECT_EQ(info["clip_skip"], 2);
  EXPECT_EQ(info["sd_model_name"], "refiner");
  EXPECT_THAT(info["infotexts"][0].get<std::string>(),
              HasSubstr("Denoising strength: 0.5, Clip skip: 2"));
}

TEST_F(SdapiAnswerTest, PicturesAreLeftOutWhereTheyAreNotAskedFor) {
  const json answer = Show(R"({"prompt": "a", "send_images": false})", TwoPictures());
  EXPECT_EQ(answer["images"], json::array());
  EXPECT_THAT(answer["info"].get<std::string>(), HasSubstr("\"batch_size\":2"));
}

TEST_F(SdapiAnswerTest, BadFieldsAreUnprocessableAndOtherErrorsAreNot) {
  EXPECT_EQ(SdapiRefusal(InvalidFields({{"steps", "at most 150"}})).code, 422);
  EXPECT_EQ(SdapiRefusal(absl::InvalidArgumentError("why")).code, 400);
  EXPECT_EQ(SdapiRefusal(absl::UnavailableError("why")).code, 503);
  SdapiDialect dialect(false, {.models = TwoModels()}, "1.2");
  v1::GenerateRequest read;
  EXPECT_OK(dialect.Read({.method = "POST", .body = R"({"prompt": "a", "steps": 200})"}, read));
  Answer answer = dialect.Refuse(InvalidFields({{"num_inference_steps", "at most 150"}}));
  EXPECT_THAT(answer.body.Take(), HasSubstr("\"detail\":\"steps: at most 150\""));
}

TEST(SdapiListsTest, OptionsAndModelsHaveNoPath) {
  const Json options = {
      {"sd_model_checkpoint", "sd_xl"}, {"samples_format", "png"}, {"CLIP_stop_at_last_layers", 1}};
  EXPECT_EQ(SdapiOptions(TwoModels()), options);
  // Clients take the key for a sign of life.
  EXPECT_EQ(SdapiOptions({})["sd_model_checkpoint"], "");
  const Json models = SdapiModels(TwoModels());
  ASSERT_EQ(models.size(), 2u);
  const Json refiner = {{"title", "sd_refiner"}, {"model_name", "sd_refiner"}, {"hash", nullptr},
                        {"sha256", nullptr},     {"filename", "sd_refiner"},   {"config", nullptr}};
  EXPECT_EQ(models[1], refiner);
}

TEST(SdapiListsTest, SamplersHaveTheWebUisNames) {
  engine::Capabilities capabilities;
  capabilities.schedulers = {
      {"euler", {"Euler", "EulerDiscreteScheduler"}, {}},
      {"dpmpp_2m", {"DPM++ 2M", "DPMSolverMultistepScheduler"}, {"exponential", "karras"}},
      {"tcd", {"TCD", "TCDScheduler"}, {}},
      {"edm_euler", {"EDMEulerScheduler"}, {}},
  };
  const auto entry = [](const char* name, const std::vector<std::string>& aliases) -> Json {
    return {{"name", name}, {"aliases", aliases}, {"options", Json::object()}};
  };
  const Json expected = Json::array(
      {entry("Euler", {"EulerDiscreteScheduler", "euler"}),
       entry("DPM++ 2M", {"DPMSolverMultistepScheduler", "dpmpp_2m"}), entry("DPM++ 2M Karras", {}),
       entry("TCD", {"TCDScheduler", "tcd"}), entry("edm_euler", {"EDMEulerScheduler"})});
  EXPECT_EQ(SdapiSamplers(capabilities), expected);
}

TEST(SdapiListsTest, ScheduleTypesAreThoseOfAnySampler) {
  engine::Capabilities capabilities;
  capabilities.schedulers = {{"a", {}, {"karras", "beta"}}, {"b", {}, {"beta", "simple"}}};
  const Json list = SdapiSchedulers(capabilities);
  std::vector<std::string> names;
  for (const Json& one : list) names.push_back(one["name"].get<std::string>());
  EXPECT_THAT(names, ::testing::ElementsAre("automatic", "beta", "karras", "simple"));
  const Json automatic = {{"name", "automatic"},
                          {"label", "Automatic"},
                          {"aliases", nullptr},
                          {"default_rho", -1},
                          {"need_inner_model", false}};
  EXPECT_EQ(list[0], automatic);
}

engine::Capabilities WithAdapters() {
  engine::Capabilities capabilities;
  capabilities.models = {{.component = "base", .prompt_embeds_width = 2048},
                         {.component = "classic", .prompt_embeds_width = 768}};
  capabilities.adapters = {
      {.name = "film", .path = "/models/film.safetensors", .kind = pipeline::AdapterKind::kLora},
      {.name = "styles/ink",
       .path = "/models/styles/ink.safetensors",
       .kind = pipeline::AdapterKind::kLora,
       .rank = 8,
       .alpha = 4,
       .trigger_phrase = "ink drawing"},
      {.name = "words/storm",
       .kind = pipeline::AdapterKind::kTextualInversion,
       .models = {"base"},
       .vectors = 3},
      {.name = "old",
       .kind = pipeline::AdapterKind::kTextualInversion,
       .models = {"classic"},
       .vectors = 1}};
  return capabilities;
}

TEST(SdapiListsTest, LorasGoByTheirNamesAndNoPathIsShown) {
  const Json list = SdapiLoras(WithAdapters());
  const Json expected = {
      {{"name", "film"}, {"alias", "film"}, {"path", "film"}, {"metadata", Json::object()}},
      {{"name", "styles/ink"},
       {"alias", "ink"},
       {"path", "styles/ink"},
       {"metadata",
        {{"modelspec.trigger_phrase", "ink drawing"},
         {"ss_network_dim", "8"},
         {"ss_network_alpha", "4"}}}}};
  EXPECT_EQ(list, expected);
  EXPECT_EQ(SdapiLoras({}), Json::array());
}

TEST(SdapiListsTest, WordsAreThoseOfTheDefaultModelOrOfOthers) {
  const auto word = [](int shape, int vectors) {
    return Json{{"step", nullptr},
                {"sd_checkpoint", nullptr},
                {"sd_checkpoint_name", nullptr},
                {"shape", shape},
                {"vectors", vectors}};
  };
  const Json expected = {{"loaded", {{"storm", word(2048, 3)}}},
                         {"skipped", {{"old", word(768, 1)}}}};
  EXPECT_EQ(SdapiEmbeddings(WithAdapters()), expected);
  const Json none = {{"loaded", Json::object()}, {"skipped", Json::object()}};
  EXPECT_EQ(SdapiEmbeddings({}), none);
}

TEST(SdapiListsTest, NoRequestIsNoProgress) {
  const Json idle = SdapiProgress({});
  EXPECT_EQ(idle["progress"], 0);
  EXPECT_EQ(idle["state"]["job_count"], 0);
  EXPECT_EQ(idle["state"]["job"], "");
  EXPECT_EQ(idle["current_image"], nullptr);
  EXPECT_TRUE(idle.contains("eta_relative"));
}

TEST(SdapiListsTest, ListsOfWhatThereIsNot) {
  for (const char* name :
       {"sd-vae", "sd-modules", "prompt-styles", "hypernetworks", "face-restorers"}) {
    EXPECT_EQ(SdapiNothing(name), Json::array()) << name;
  }
  EXPECT_EQ(SdapiNothing("upscalers")[0]["name"], "None");
  EXPECT_EQ(SdapiNothing("latent-upscale-modes")[0]["name"], "None");
  const Json scripts = {{"txt2img", Json::array()}, {"img2img", Json::array()}};
  EXPECT_EQ(SdapiNothing("scripts"), scripts);
  EXPECT_EQ(SdapiNothing("cmd-flags"), Json::object());
  EXPECT_EQ(SdapiNothing("controlnet"), nullptr);
}

}  // namespace
}  // namespace latentd::server::http
