#include "server/http/request/request_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/http/exchange/http_status.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::http {
namespace {

using ::testing::ElementsAre;

class RequestBuilderTest : public ::testing::Test {
 protected:
  std::vector<std::string> BadNames() const {
    std::vector<std::string> names;
    for (const FieldViolation& violation : GetFieldViolations(builder_.status())) {
      names.push_back(violation.field);
    }
    return names;
  }

  latent::v1::GenerateRequest request_;
  const latent::v1::GenerateRequest defaults_;
  RequestBuilder builder_{defaults_, request_};
};

TEST_F(RequestBuilderTest, AFieldHasTheClientsName) {
  builder_.Set("num_inference_steps", 7, "steps");
  builder_.Call("output.format", "output_format");
  EXPECT_OK(builder_.status());
  EXPECT_EQ(request_.num_inference_steps(), 7);
  const FieldNames expected = {{"num_inference_steps", "steps"},
                               {"output.format", "output_format"}};
  EXPECT_EQ(builder_.names(), expected);
  EXPECT_TRUE(builder_.IsSet("num_inference_steps"));
  EXPECT_FALSE(builder_.IsSet("steps"));
}

TEST_F(RequestBuilderTest, NullIsNotSet) {
  builder_.Set("seed", nullptr, "seed");
  EXPECT_FALSE(builder_.IsSet("seed"));
  builder_.Set("seed", 7, "seed");
  EXPECT_OK(builder_.status());
  EXPECT_EQ(request_.seed(), 7u);
}

TEST_F(RequestBuilderTest, TwoNamesOfAFieldHaveToAgree) {
  builder_.Set("num_inference_steps", 7, "steps");
  builder_.Set("num_inference_steps", 7, "step");
  EXPECT_OK(builder_.status());
  builder_.Set("num_inference_steps", 8, "num_inference_steps");
  EXPECT_THAT(GetFieldViolations(builder_.status()),
              ElementsAre(FieldViolation{"num_inference_steps", "is given as steps too"}));
  EXPECT_EQ(request_.num_inference_steps(), 7);
}

TEST_F(RequestBuilderTest, ThereIsOnePicture) {
  builder_.SetImage("a", "image[]");
  EXPECT_OK(builder_.status());
  builder_.SetImage("a", "image[]");
  EXPECT_THAT(BadNames(), ElementsAre("image[]"));
  builder_.Set("image", "AAAA", "init_images");
  EXPECT_THAT(BadNames(), ElementsAre("image[]", "init_images"));
  EXPECT_EQ(request_.image(), "a");
}

TEST_F(RequestBuilderTest, ABadValueIsNamedAsTheClientDoes) {
  builder_.Set("num_inference_steps", "many", "steps");
  EXPECT_THAT(GetFieldViolations(builder_.status()),
              ElementsAre(FieldViolation{"steps", "must be a whole number, is \"many\""}));
  EXPECT_EQ(GetReason(builder_.status()), "");
  EXPECT_TRUE(absl::IsInvalidArgument(builder_.status()));
}

TEST_F(RequestBuilderTest, TheFirstViolationIsTheReason) {
  builder_.RefuseUnsupported("mask", "is not taken");
  builder_.RefuseUnknown("what");
  builder_.Refuse("size", "is wrong");
  EXPECT_EQ(GetReason(builder_.status()), kUnsupportedValue);
  EXPECT_THAT(BadNames(), ElementsAre("mask", "what", "size"));
}

TEST_F(RequestBuilderTest, AnUnknownKeyAfterABadOneIsNoReason) {
  builder_.Refuse("size", "is wrong");
  builder_.RefuseUnknown(std::string(1000, 'a'));
  EXPECT_EQ(GetReason(builder_.status()), "");
  EXPECT_THAT(BadNames(), ElementsAre("size", std::string(64, 'a')));
}

TEST_F(RequestBuilderTest, AnUnknownKeyIsTheReasonWhereItIsFirst) {
  builder_.RefuseUnknown("what");
  EXPECT_EQ(GetReason(builder_.status()), kUnknownParameter);
}

}  // namespace
}  // namespace latentd::server::http
