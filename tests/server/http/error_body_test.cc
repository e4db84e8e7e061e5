#include "server/http/exchange/error_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "server/http/exchange/http_status.h"

namespace latentd::server::http {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

const FieldNames& ClientNames() {
  static const auto& names =
      *new FieldNames{{"width", "size"}, {"num_inference_steps", "steps"}, {"eta", "eta"}};
  return names;
}

TEST(ErrorBodyTest, OpenAiReadsFourMembersAndOursBesideThem) {
  const absl::Status status = WithFacts(
      WithReason(InvalidFields({{"num_inference_steps", "at most 150"}, {"width", "too large"}}),
                 "BAD_FIELDS"),
      {{"max_steps", "150"}});
  const Json expected = {
      {"error",
       {{"message", "steps: at most 150; size: too large"},
        {"type", "invalid_request_error"},
        {"param", "steps"},
        {"code", "bad_fields"},
        {"latentd",
         {{"reason", "BAD_FIELDS"},
          {"metadata", {{"max_steps", "150"}}},
          {"violations", Json::array({{{"field", "steps"}, {"description", "at most 150"}},
                                      {{"field", "size"}, {"description", "too large"}}})}}}}}};
  EXPECT_EQ(OpenAiError(status, ClientNames()), expected);
}

TEST(ErrorBodyTest, AnErrorWithoutFieldsIsItsMessage) {
  const Json error = OpenAiError(absl::InternalError("a fault"))["error"];
  EXPECT_EQ(error["message"], "a fault");
  EXPECT_EQ(error["type"], "server_error");
  EXPECT_EQ(error["param"], nullptr);
  EXPECT_EQ(error["code"], "internal");
  EXPECT_EQ(error["latentd"]["violations"], Json::array());
  EXPECT_EQ(error["latentd"]["metadata"], Json::object());
}

TEST(ErrorBodyTest, SomeCodesAreOpenAisOwn) {
  EXPECT_EQ(OpenAiError(absl::UnauthenticatedError("who"))["error"]["code"], "invalid_api_key");
  const Json model =
      OpenAiError(WithReason(absl::InvalidArgumentError("which"), kModelNotFound))["error"];
  EXPECT_EQ(model["code"], "model_not_found");
  EXPECT_EQ(model["param"], "model");
}

TEST(ErrorBodyTest, TheWebUisHasItsMessageTwice) {
  const absl::Status status =
      WithReason(InvalidFields({{"num_inference_steps", "at most 150"}}), "BAD_FIELDS");
  const Json expected = {{"error", "bad_fields"},
                         {"detail", "steps: at most 150"},
                         {"body", ""},
                         {"errors", "steps: at most 150"}};
  EXPECT_EQ(SdapiError(status, ClientNames()), expected);
}

TEST(ErrorBodyTest, HuggingFacesIsText) {
  const Json expected = {{"error", "size: too large"}};
  EXPECT_EQ(HuggingFaceError(InvalidFields({{"width", "too large"}}), ClientNames()), expected);
}

TEST(ErrorBodyTest, NoErrorIsLong) {
  const Json message =
      OpenAiError(absl::InternalError(std::string(10000, 'a')))["error"]["message"];
  EXPECT_EQ(message.get<std::string>().size(), 4096u);
  std::vector<FieldViolation> many;
  for (int i = 0; i < 40; ++i) many.push_back({absl::StrCat("f", i), std::string(10000, 'a')});
  const Json error = OpenAiError(InvalidFields(many))["error"];
  EXPECT_EQ(error["latentd"]["violations"].size(), 32u);
  EXPECT_EQ(error["latentd"]["violations"][31]["description"].get<std::string>().size(), 4096u);
  EXPECT_EQ(error["message"].get<std::string>().size(), 4096u);
}

TEST(ErrorBodyTest, BytesThatAreNoTextAreWritten) {
  const Json error =
      OpenAiError(absl::InternalError("a\xff"
                                      "b"))["error"];
  EXPECT_EQ(error["message"], "a\\xffb");
  EXPECT_THAT(ToText(Json("\xff")), HasSubstr("\xef\xbf\xbd"));
}

}  // namespace
}  // namespace latentd::server::http
