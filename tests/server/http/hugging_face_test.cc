#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "server/http/exchange/http_status.h"
#include "server/http/hugging_face/hugging_face_dialect.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::http {
namespace {

namespace v1 = ::latent::v1;
using ::testing::ElementsAre;
using ::testing::Pair;

class HuggingFaceTest : public ::testing::Test {
 protected:
  absl::Status Read(const std::string& body, const std::string& accept = "image/png") {
    request_.Clear();
    return dialect_.Read({.method = "POST", .headers = {{"Accept", accept}}, .body = body},
                         request_);
  }

  std::vector<std::string> WrongIn(const std::string& body) {
    std::vector<std::string> names;
    for (const FieldViolation& violation : GetFieldViolations(Read(body))) {
      names.push_back(violation.field);
    }
    return names;
  }

  v1::GenerateRequest request_;
  HuggingFaceDialect dialect_{{.models = {{"sd_xl", "base", 20}, {"sd_refiner", "refiner", 30}}}};
};

TEST_F(HuggingFaceTest, APromptIsTheInput) {
  ASSERT_OK(Read(R"({"inputs": "a star", "parameters": {"negative_prompt": "blur", "width": 64,
                     "height": 32, "num_inference_steps": 7, "guidance_scale": 2.5, "seed": null,
                     "scheduler": "euler"}})"));
  v1::GenerateRequest expected;
  expected.set_prompt("a star");
  expected.set_negative_prompt("blur");
  expected.set_width(64);
  expected.set_height(32);
  expected.set_num_inference_steps(7);
  expected.set_guidance_scale(2.5);
  expected.set_scheduler("euler");
  expected.set_bucket_policy(v1::BUCKET_POLICY_SNAP);
  expected.mutable_output()->set_format(v1::FORMAT_PNG);
  EXPECT_EQ(request_.DebugString(), expected.DebugString());
}

TEST_F(HuggingFaceTest, ParametersMayBeLeftOut) {
  for (const char* rest : {"", R"(, "parameters": null)", R"(, "parameters": {})",
                           R"(, "options": {"wait_for_model": true})"}) {
    ASSERT_OK(Read(absl::StrCat(R"({"inputs": "a star")", rest, "}"))) << rest;
    EXPECT_EQ(request_.prompt(), "a star") << rest;
  }
}

TEST_F(HuggingFaceTest, WithAPromptBesideItTheInputIsAPicture) {
  ASSERT_OK(Read(absl::StrCat(R"({"inputs": ")", absl::Base64Escape("picture"),
                              R"(", "parameters": {"prompt": "a star", "strength": 0.5,
                                  "target_size": {"width": 64, "height": 32}}})")));
  EXPECT_EQ(request_.image(), "picture");
  EXPECT_EQ(request_.prompt(), "a star");
  EXPECT_EQ(request_.strength(), 0.5);
  EXPECT_EQ(request_.width(), 64);
  EXPECT_EQ(request_.height(), 32);
  EXPECT_FALSE(request_.has_target_size());
}

TEST_F(HuggingFaceTest, TheFormatIsThatWhichIsAccepted) {
  ASSERT_OK(Read(R"({"inputs": "a"})", "image/jpeg, */*"));
  EXPECT_EQ(request_.output().format(), v1::FORMAT_JPEG);
  ASSERT_OK(Read(R"({"inputs": "a"})", "image/webp"));
  EXPECT_EQ(request_.output().format(), v1::FORMAT_WEBP);
  ASSERT_OK(Read(R"({"inputs": "a"})", "*/*"));
  EXPECT_EQ(request_.output().format(), v1::FORMAT_PNG);
  const std::pair<const char*, v1::Format> weighed[] = {
      {"image/webp;q=0.5, image/png", v1::FORMAT_PNG},
      {"image/jpeg;q=0, image/png", v1::FORMAT_PNG},
      {"image/webp;q=0.5, */*", v1::FORMAT_PNG},
      {"*/*;q=0.8, IMAGE/WEBP ; q=0.9", v1::FORMAT_WEBP},
      {"*/*, image/jpeg", v1::FORMAT_JPEG},
      {"image/avif,image/webp,image/jpeg,*/*;q=0.8", v1::FORMAT_WEBP},
      {"image/jpeg;q=0", v1::FORMAT_PNG},
      {"", v1::FORMAT_PNG}};
  for (const auto& [accept, format] : weighed) {
    ASSERT_OK(Read(R"({"inputs": "a"})", accept));
    EXPECT_EQ(request_.output().format(), format) << accept;
  }
  ASSERT_OK(Read(R"({"inputs": "a", "parameters": {"output": {"format": "FORMAT_WEBP"}}})",
                 "image/jpeg"));
  EXPECT_EQ(request_.output().format(), v1::FORMAT_WEBP);
}

TEST_F(HuggingFaceTest, ModelsAreFoundByEitherName) {
  ASSERT_OK(Read(R"({"inputs": "a", "parameters": {"model": "sd_refiner"}})"));
  EXPECT_EQ(request_.model(), "refiner");
  ASSERT_OK(Read(R"({"inputs": "a"})"));
  EXPECT_EQ(request_.model(), "");
  EXPECT_EQ(GetReason(Read(R"({"inputs": "a", "parameters": {"model": "flux"}})")), kModelNotFound);
}

TEST_F(HuggingFaceTest, WhatWouldBePassedOverIsNamed) {
  EXPECT_EQ(GetReason(Read(R"({"inputs": "a", "parameters": {"what": 1}})")), kUnknownParameter);
  EXPECT_THAT(WrongIn(R"({"inputs": "a", "parameters": {"what": 1}})"), ElementsAre("what"));
  EXPECT_THAT(WrongIn(R"({"inputs": "a", "seed": 7})"), ElementsAre("seed"));
  EXPECT_THAT(WrongIn(R"({"inputs": "a", "parameters": [1]})"), ElementsAre("parameters"));
  EXPECT_THAT(WrongIn(R"({"inputs": 5})"), ElementsAre("inputs"));
  EXPECT_THAT(WrongIn(R"({"inputs": "a", "parameters": {"target_size": 5}})"),
              ElementsAre("target_size"));
  EXPECT_EQ(GetReason(Read("[]")), "MALFORMED");
}

TEST_F(HuggingFaceTest, AnAnswerIsOnePicture) {
  EXPECT_THAT(WrongIn(R"({"inputs": "a", "parameters": {"num_images_per_prompt": 2}})"),
              ElementsAre("num_images_per_prompt"));
  EXPECT_THAT(WrongIn(R"({"inputs": "a", "parameters": {"seeds": [1, 2]}})"),
              ElementsAre("num_images_per_prompt"));
  EXPECT_OK(Read(R"({"inputs": "a", "parameters": {"num_images_per_prompt": 1}})"));
}

TEST_F(HuggingFaceTest, TheAnswerIsItsBytes) {
  Drawn drawn;
  drawn.images.push_back(std::make_shared<const engine::Event>(
      engine::Image{.seed = 7, .format = image::Format::kJpeg, .bytes = "bytes"}));
  Answer answer = dialect_.Show(drawn);
  EXPECT_EQ(answer.code, 200);
  EXPECT_EQ(answer.content_type, "image/jpeg");
  EXPECT_THAT(answer.headers, ElementsAre(Pair("x-seed", "7")));
  EXPECT_EQ(answer.body.Take(), "bytes");
}

TEST_F(HuggingFaceTest, AnErrorIsInTheClientsWords) {
  ASSERT_OK(Read(R"({"inputs": "", "parameters": {"width": 9}})"));
  Answer answer = dialect_.Refuse(InvalidFields({{"prompt", "must not be empty"}}));
  EXPECT_EQ(answer.code, 400);
  EXPECT_EQ(answer.body.Take(), R"({"error":"inputs: must not be empty"})");
  Answer later = dialect_.Refuse(WithRetryDelay(
      WithReason(absl::UnavailableError("goes"), "DRAINING"), absl::Milliseconds(1500)));
  EXPECT_EQ(later.code, 503);
  EXPECT_TRUE(later.close);
  EXPECT_THAT(later.headers, ::testing::Contains(Pair("Retry-After", "2")));
}

}  // namespace
}  // namespace latentd::server::http
