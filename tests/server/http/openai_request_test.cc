#include "server/http/openai/openai_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/image/decode.h"
#include "core/image/encode.h"
#include "server/http/exchange/error_body.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::http {
namespace {

namespace v1 = ::latent::v1;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OpenAiRequestTest : public ::testing::Test {
 protected:
  absl::Status Read(const std::string& body, ImagesRoute route = ImagesRoute::kGenerations,
                    const std::string& type = "application/json") {
    request_.Clear();
    form_ = ImagesForm();
    const Request http = {.method = "POST", .headers = {{"Content-Type", type}}, .body = body};
    return ReadImagesRequest(http, route, offer_, request_, form_);
  }

  // Names of what is wrong, in the client's words.
  std::vector<std::string> BadOf(const std::string& body,
                                 ImagesRoute route = ImagesRoute::kGenerations) {
    std::vector<std::string> names;
    for (const auto& violation : GetFieldViolations(Read(body, route))) {
      names.push_back(violation.field);
    }
    return names;
  }

  const Offer offer_ = {.models = {{"sd_xl", "base", 20}, {"sd_refiner", "refiner", 30}}};
  v1::GenerateRequest request_;
  ImagesForm form_;
};

TEST_F(OpenAiRequestTest, WhatStockClientsSend) {
  ASSERT_OK(Read(R"({"model": "gpt-image-1", "prompt": "a star", "n": 2, "size": "1024x768",
                     "response_format": "b64_json", "quality": "hd", "user": "me", "style": null})"));
  EXPECT_EQ(request_.prompt(), "a star");
  EXPECT_EQ(request_.num_images_per_prompt(), 2);
  EXPECT_EQ(request_.width(), 1024);
  EXPECT_EQ(request_.height(), 768);
  EXPECT_EQ(request_.bucket_policy(), v1::BUCKET_POLICY_SNAP);
  EXPECT_EQ(request_.model(), "base");
  EXPECT_FALSE(request_.has_strength());
  EXPECT_FALSE(form_.as_url);
  EXPECT_FALSE(form_.stream);
  EXPECT_EQ(form_.quality, "hd");
}

TEST_F(OpenAiRequestTest, AQualityIsAnEffort) {
  const auto effort = [&](absl::string_view fields) {
    EXPECT_OK(Read(absl::StrCat(R"({"prompt": "a", )", fields, "}")));
    return request_.effort();
  };
  EXPECT_EQ(effort(R"("quality": "low")"), v1::EFFORT_FAST);
  EXPECT_EQ(effort(R"("quality": "medium")"), v1::EFFORT_HIGH);
  EXPECT_EQ(effort(R"("quality": "high")"), v1::EFFORT_FULL);
  EXPECT_EQ(effort(R"("quality": "hd")"), v1::EFFORT_FULL);
  EXPECT_EQ(effort(R"("quality": "low", "effort": "full")"), v1::EFFORT_FULL);
  EXPECT_EQ(effort(R"("effort": "fast", "quality": "hd")"), v1::EFFORT_FAST);
  for (const char* none : {R"("quality": "auto")", R"("quality": "standard")", R"("n": 1)"}) {
    EXPECT_EQ(effort(none), v1::EFFORT_UNSPECIFIED);
    EXPECT_FALSE(request_.has_effort());
  }
}

TEST_F(OpenAiRequestTest, NothingIsSetThatIsNotSaid) {
  ASSERT_OK(Read(R"({"prompt": "a star", "n": null, "size": "auto", "seed": -1})"));
  v1::GenerateRequest expected;
  expected.set_prompt("a star");
  expected.set_bucket_policy(v1::BUCKET_POLICY_SNAP);
  EXPECT_EQ(request_.DebugString(), expected.DebugString());
}

TEST_F(OpenAiRequestTest, EveryFieldOfTheProtoGoesByItsName) {
  ASSERT_OK(Read(R"({"prompt": "a", "num_inference_steps": 7, "guidance_scale": "2.5",
                     "bucket_policy": "exact", "seeds": [1, 2], "use_karras_sigmas": true,
                     "guidance_interval": {"start": 0.25, "stop": 0.5}, "request_id": "mine",
                     "output": {"format": "FORMAT_JPEG", "quality": 50}, "priority": -1})"));
  EXPECT_EQ(request_.num_inference_steps(), 7);
  EXPECT_EQ(request_.guidance_scale(), 2.5);
  EXPECT_EQ(request_.bucket_policy(), v1::BUCKET_POLICY_EXACT);
  EXPECT_THAT(request_.seeds(), ElementsAre(1u, 2u));
  EXPECT_TRUE(request_.use_karras_sigmas());
  EXPECT_EQ(request_.guidance_interval().stop(), 0.5);
  EXPECT_EQ(request_.request_id(), "mine");
  EXPECT_EQ(request_.output().quality(), 50);
  EXPECT_EQ(request_.priority(), -1);
  EXPECT_EQ(form_.format, "jpeg");
}

TEST_F(OpenAiRequestTest, PeersNamesAreTheSameFields) {
  ASSERT_OK(
      Read(R"({"prompt": "a", "steps": 7, "cfg_scale": 3, "rng_seed": 18446744073709551615})"));
  EXPECT_EQ(request_.num_inference_steps(), 7);
  EXPECT_EQ(request_.guidance_scale(), 3);
  EXPECT_EQ(request_.seed(), 18446744073709551615u);
  EXPECT_THAT(BadOf(R"({"prompt": "a", "steps": 7, "num_inference_steps": 8})"),
              ElementsAre("steps"));
  EXPECT_OK(Read(R"({"prompt": "a", "steps": 7, "num_inference_steps": 7})"));
  ASSERT_OK(Read(R"({"prompt": "a", "extra_body": {"steps": 9, "prompt": "b"}})"));
  EXPECT_EQ(request_.num_inference_steps(), 9);
  EXPECT_EQ(request_.prompt(), "a");
  EXPECT_OK(Read(R"({"prompt": "a", "extra_body": null})"));
  EXPECT_THAT(BadOf(R"({"prompt": "a", "extra_body": [1]})"), ElementsAre("extra_body"));
}

TEST_F(OpenAiRequestTest, BadValuesAreNamedTogether) {
  EXPECT_THAT(
      BadOf(R"({"prompt": 1, "n": 1.5, "size": "big", "response_format": {}, "stream": "x",
                        "output_format": "gif", "partial_images": 4, "output_compression": 101,
                        "quality": "best", "use_karras_sigmas": "maybe", "bucket_policy": "any"})"),
      ::testing::UnorderedElementsAre("prompt", "n", "size", "response_format", "stream",
                                      "output_format", "partial_images", "output_compression",
                                      "quality", "use_karras_sigmas", "bucket_policy"));
}

TEST_F(OpenAiRequestTest, SizesAreNeverGuessed) {
  for (const char* size :
       {"0x512", "512", "512x", "x512", "-1x512", "512x512x512", "123456x1", "5 x5x"}) {
    EXPECT_THAT(BadOf(absl::StrCat(R"({"prompt": "a", "size": ")", size, "\"}")),
                ElementsAre("size"))
        << size;
  }
  ASSERT_OK(Read(R"({"prompt": "a", "size": "512×256"})"));
  EXPECT_EQ(request_.height(), 256);
  EXPECT_THAT(BadOf(R"({"prompt": "a", "size": "512x256", "width": 256})"), ElementsAre("width"));
}

TEST_F(OpenAiRequestTest, UnknownKeysAndWhatThisServerCannotDo) {
  const absl::Status unknown = Read(R"({"prompt": "a", "true_cfg_scale": 4})");
  EXPECT_EQ(GetReason(unknown), "UNKNOWN_PARAMETER");
  EXPECT_EQ(OpenAiError(unknown)["error"]["param"], "true_cfg_scale");
  EXPECT_EQ(OpenAiError(unknown)["error"]["code"], "unknown_parameter");
  EXPECT_EQ(GetReason(Read(R"({"prompt": "a", "background": "transparent"})")),
            "UNSUPPORTED_VALUE");
}

TEST_F(OpenAiRequestTest, LorasAreAdapters) {
  for (const char* name : {"lora", "lora_alphas"}) {
    ASSERT_OK(
        Read(absl::StrCat(R"({"prompt": "a", ")", name, R"(": {"film": 0.8, "styles/ink": -1}})")));
    ASSERT_EQ(request_.adapters_size(), 2);
    EXPECT_EQ(request_.adapters(0).name(), "film");
    EXPECT_EQ(request_.adapters(0).weight(), 0.8);
    EXPECT_EQ(request_.adapters(1).name(), "styles/ink");
    EXPECT_EQ(request_.adapters(1).weight(), -1);
  }
  ASSERT_OK(Read(R"({"prompt": "a", "lora": "{\"film\": 0.5}"})"));
  EXPECT_EQ(request_.adapters(0).weight(), 0.5);
  for (const char* bad : {R"([{"path": "/a.safetensors", "multiplier": 1}])", R"("film")", "0.8"}) {
    const absl::Status refused = Read(absl::StrCat(R"({"prompt": "a", "lora": )", bad, "}"));
    ASSERT_EQ(GetFieldViolations(refused).size(), 1u) << bad;
    EXPECT_EQ(GetFieldViolations(refused).front().field, "lora");
  }
  EXPECT_EQ(BadOf(R"({"prompt": "a", "lora": {"film": "much"}})").size(), 1u);
  EXPECT_THAT(BadOf(R"({"prompt": "a", "lora": {"film": 1}, "adapters": []})"),
              ElementsAre("lora"));
}

// A PNG with one row of pixels of these alphas.
std::string PngOf(const std::vector<uint8_t>& alphas) {
  std::vector<uint8_t> pixels;
  for (const uint8_t alpha : alphas) pixels.insert(pixels.end(), {10, 20, 30, alpha});
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(alphas.size());
  png.height = 1;
  png.format = PNG_FORMAT_RGBA;
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&png, nullptr, &size, 0, pixels.data(), 0, nullptr);
  std::string bytes(size, '\0');
  png_image_write_to_memory(&png, bytes.data(), &size, 0, pixels.data(), 0, nullptr);
  return bytes;
}

std::string Masked(absl::string_view mask) {
  return absl::StrCat(R"({"prompt": "a", "image": "AAAA", "mask": )", mask, "}");
}

std::string Quoted(const std::string& png) {
  return absl::StrCat("\"data:image/png;base64,", absl::Base64Escape(png), "\"");
}

TEST_F(OpenAiRequestTest, WhatAMaskHasTransparentIsDrawn) {
  const std::string mask = Quoted(PngOf({0, 255, 100}));
  for (const std::string& sent : {mask, "[" + mask + "]", R"({"image_url": )" + mask + "}"}) {
    ASSERT_OK(Read(Masked(sent), ImagesRoute::kEdits));
    ASSERT_OK_AND_ASSIGN(const image::Image drawn, image::Decode(request_.mask_image()));
    EXPECT_EQ(drawn, (image::Image{3, 1, {255, 255, 255, 0, 0, 0, 155, 155, 155}}));
    EXPECT_FALSE(request_.has_strength());
  }
}

TEST_F(OpenAiRequestTest, AMaskThatIsTransparentEverywhereIsNone) {
  ASSERT_OK(Read(Masked(Quoted(PngOf({0, 0}))), ImagesRoute::kEdits));
  EXPECT_FALSE(request_.has_mask_image());
  EXPECT_FLOAT_EQ(request_.strength(), 0.6F);
  ASSERT_OK(Read(Masked("null"), ImagesRoute::kEdits));
}

TEST_F(OpenAiRequestTest, AMaskMayBeAFileOfAForm) {
  const std::string mask = PngOf({0, 255});
  const auto part = [](const std::string& head, const std::string& body) {
    return "--b\r\nContent-Disposition: form-data; name=" + head + "\r\n\r\n" + body + "\r\n";
  };
  for (const char* name : {"mask", "\"mask[]\""}) {
    ASSERT_OK(Read(part("prompt", "a") + part("image; filename=i.png", "AAA") +
                       part(absl::StrCat(name, "; filename=m.png"), mask) + "--b--\r\n",
                   ImagesRoute::kEdits, "multipart/form-data; boundary=b"));
    ASSERT_OK_AND_ASSIGN(const image::Image drawn, image::Decode(request_.mask_image()));
    EXPECT_EQ(drawn.rgb, (std::vector<uint8_t>{255, 255, 255, 0, 0, 0}));
  }
}

TEST_F(OpenAiRequestTest, AMaskThatSaysNothingIsRefused) {
  const std::string mask = Quoted(PngOf({0, 255}));
  ASSERT_OK_AND_ASSIGN(const std::string plain, image::Encode({1, 1, {1, 2, 3}}, {}));
  for (const std::string& bad :
       {Quoted(plain), std::string("\"AAAA\""), std::string("7"),
        Quoted(PngOf({0, 255}).substr(0, 40)), "[" + mask + ", " + mask + "]"}) {
    EXPECT_THAT(BadOf(Masked(bad), ImagesRoute::kEdits), ElementsAre("mask")) << bad;
  }
  EXPECT_THAT(Read(Masked(Quoted(plain)), ImagesRoute::kEdits).message(),
              HasSubstr("has no transparency"));
  EXPECT_EQ(GetReason(Read(R"({"image": "AAAA", "mask": )" + mask + "}", ImagesRoute::kVariations)),
            "UNSUPPORTED_VALUE");
}

TEST_F(OpenAiRequestTest, ModelsAreFoundByEitherName) {
  ASSERT_OK(Read(R"({"prompt": "a", "model": "sd_refiner"})"));
  EXPECT_EQ(request_.model(), "refiner");
  ASSERT_OK(Read(R"({"prompt": "a", "model": "dall-e-3"})"));
  EXPECT_EQ(request_.model(), "base");
  EXPECT_TRUE(form_.as_url);
  ASSERT_OK(Read(R"({"prompt": "a", "model": "dall-e-3", "response_format": "b64_json"})"));
  EXPECT_FALSE(form_.as_url);
  const absl::Status unknown = Read(R"({"prompt": "a", "model": "flux"})");
  EXPECT_EQ(GetReason(unknown), "MODEL_NOT_FOUND");
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("sd_xl, sd_refiner"));
}

TEST_F(OpenAiRequestTest, PartialsAreSpreadOverTheSteps) {
  ASSERT_OK(Read(R"({"prompt": "a", "stream": true, "partial_images": 3})"));
  EXPECT_EQ(request_.previews().every_n_steps(), 5);  // the model's 20
  ASSERT_OK(Read(R"({"prompt": "a", "stream": true, "partial_images": 2, "steps": 10})"));
  EXPECT_EQ(request_.previews().every_n_steps(), 4);
  ASSERT_OK(Read(R"({"prompt": "a", "partial_images": 2})"));
  EXPECT_FALSE(request_.has_previews());
}

TEST_F(OpenAiRequestTest, AnEditByFormIsThatInJson) {
  const std::string form = absl::StrCat(
      "--b\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\na star\r\n",
      "--b\r\nContent-Disposition: form-data; name=\"image[]\"; "
      "filename=\"a.png\"\r\n\r\nbytes\r\n",
      "--b\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\n2\r\n",
      "--b\r\nContent-Disposition: form-data; name=\"stream\"\r\n\r\ntrue\r\n",
      "--b\r\nContent-Disposition: form-data; name=\"seeds\"\r\n\r\n[3, 4]\r\n--b--\r\n");
  ASSERT_OK(Read(form, ImagesRoute::kEdits, "multipart/form-data; boundary=b"));
  const v1::GenerateRequest by_form = request_;
  EXPECT_TRUE(form_.stream);
  EXPECT_EQ(by_form.image(), "bytes");
  EXPECT_EQ(by_form.strength(), 0.6);
  ASSERT_OK(Read(absl::StrCat(R"({"prompt": "a star", "n": 2, "stream": true, "seeds": [3, 4],
                                  "images": [{"image_url": {"url": "data:image/png;base64,)",
                              absl::Base64Escape("bytes"), "\"}}]}"),
                 ImagesRoute::kEdits));
  EXPECT_EQ(request_.DebugString(), by_form.DebugString());
}

TEST_F(OpenAiRequestTest, AFormsTextsAreUtf8AndThereOnce) {
  const auto part = [](const char* name, const char* text) {
    return absl::StrCat("--b\r\nContent-Disposition: form-data; name=\"", name, "\"\r\n\r\n", text,
                        "\r\n");
  };
  const auto why = [&](const std::string& parts) {
    const absl::Status read =
        Read(parts + "--b--\r\n", ImagesRoute::kEdits, "multipart/form-data; boundary=b");
    EXPECT_EQ(GetReason(read), "MALFORMED");
    return std::string(read.message());
  };
  EXPECT_THAT(why(part("prompt", "a \xff\xfe star")), HasSubstr("part prompt is not UTF-8"));
  EXPECT_THAT(why(part("pro\xff", "a")), HasSubstr("a name that is not UTF-8"));
  EXPECT_THAT(why(part("prompt", "a") + part("prompt", "b")),
              HasSubstr("part prompt is there twice"));
}

TEST_F(OpenAiRequestTest, EditsStartFromOnePicture) {
  EXPECT_THAT(BadOf(R"({"prompt": "a"})", ImagesRoute::kEdits), ElementsAre("image"));
  EXPECT_THAT(BadOf(R"({"prompt": "a", "image": ["AAAA", "AAAA"]})", ImagesRoute::kEdits),
              ElementsAre("image"));
  EXPECT_THAT(BadOf(R"({"prompt": "a", "image": "https://a/b"})", ImagesRoute::kEdits),
              ::testing::Contains("image"));
  ASSERT_OK(Read(R"({"prompt": "a", "image": "AAAA", "strength": 0.3})", ImagesRoute::kEdits));
  EXPECT_EQ(request_.strength(), 0.3);
  ASSERT_OK(Read(R"({"image": "AAAA"})", ImagesRoute::kVariations));
  EXPECT_EQ(request_.strength(), 0.7);
}

TEST_F(OpenAiRequestTest, WhatIsNoObjectIsRefused) {
  for (const char* body : {"", "[]", "{", "null", "{\"prompt\": \"\xff\"}", "{\"n\": 1e999}"}) {
    EXPECT_EQ(GetReason(Read(body)), "MALFORMED") << body;
  }
  EXPECT_THAT(Read(R"({"prompt": "a", "n": 1, "n": 2})").message(), HasSubstr("has n twice"));
  std::string deep(1000, '[');
  EXPECT_EQ(GetReason(Read("{\"prompt\": " + deep + "}")), "MALFORMED");
}

}  // namespace
}  // namespace latentd::server::http
