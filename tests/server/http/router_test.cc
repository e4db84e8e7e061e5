#include "server/http/routes/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/errors/error_details.h"
#include "server/http/calls/served_models.h"
#include "server/http/exchange/http_status.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::http {
namespace {

using ::testing::HasSubstr;

class RouterTest : public ::testing::Test {
 protected:
  // The route's path; empty: there is none.
  std::string Find(absl::string_view method, absl::string_view path) const {
    const Router::Found found = router_.Find(method, path);
    return found.route == nullptr ? "" : found.route->method + " " + found.route->path;
  }

  const Router router_{{{.method = "GET", .path = "/a"},
                        {.method = "POST", .path = "/a"},
                        {.method = "GET", .path = "/c/*/d"},
                        {.method = "GET", .path = "/c/*"},
                        {.method = "GET", .path = "/a/*"},
                        {.method = "POST", .path = "/b"}}};
};

TEST_F(RouterTest, APathGoesByItsMethod) {
  EXPECT_EQ(Find("GET", "/a"), "GET /a");
  EXPECT_EQ(Find("HEAD", "/a"), "GET /a");
  EXPECT_EQ(Find("POST", "/a"), "POST /a");
  EXPECT_EQ(Find("GET", "/a/b/c"), "GET /a/*");
  EXPECT_EQ(Find("GET", "/a/"), "GET /a");
  EXPECT_EQ(Find("POST", "/b/"), "POST /b");
  EXPECT_EQ(Find("GET", "/c/x/d"), "GET /c/*/d");
  EXPECT_EQ(Find("GET", "/c/x/d/"), "GET /c/*/d");
  EXPECT_EQ(Find("GET", "/c/x/e"), "GET /c/*");
  EXPECT_EQ(Find("GET", "/c/d"), "GET /c/*");
  EXPECT_EQ(Find("GET", "/c//d"), "GET /c/*");
}

TEST_F(RouterTest, OthersAreNotThere) {
  for (const char* path : {"/", "", "/A", "/ab", "/b/c", "a", "*", "/b//"}) {
    const Router::Found found = router_.Find("POST", path);
    EXPECT_EQ(found.route, nullptr) << path;
    EXPECT_EQ(GetReason(found.status), kNoSuchRoute) << path;
    EXPECT_EQ(found.allow, "") << path;
  }
}

TEST_F(RouterTest, AnotherMethodIsToldThoseThatThereAre) {
  const Router::Found found = router_.Find("DELETE", "/a");
  EXPECT_EQ(found.route, nullptr);
  EXPECT_EQ(GetReason(found.status), kMethodNotAllowed);
  EXPECT_EQ(found.allow, "GET, HEAD, POST");
  EXPECT_EQ(router_.Find("HEAD", "/b").allow, "POST");
  EXPECT_EQ(router_.Find("get", "/b").allow, "POST");
}

TEST(RefuseAtTest, AnErrorIsThatOfTheApi) {
  const auto body = [](const char* path) {
    return RefuseAt(path, absl::NotFoundError("why")).body.Take();
  };
  EXPECT_THAT(body("/v1/images/generations"), HasSubstr("\"type\":\"invalid_request_error\""));
  EXPECT_THAT(body("/nothing"), HasSubstr("\"type\":\"invalid_request_error\""));
  EXPECT_THAT(body("/sdapi/v1/txt2img"), HasSubstr("\"detail\":\"why\""));
  EXPECT_EQ(body("/hf"), R"({"error":"why"})");
}

engine::Capabilities Serving(const std::vector<engine::ModelInfo>& models) {
  engine::Capabilities capabilities;
  capabilities.models = models;
  return capabilities;
}

TEST(ServedModelsTest, ACheckpointsNameIsThatOfTheModel) {
  const auto models = ModelsOf(Serving({{.component = "base", .path = "/models/sd_xl/"},
                                        {.component = "refiner", .path = "/models/sd_refiner"},
                                        {.component = "anime", .path = "/models/other"}}));
  ASSERT_EQ(models.size(), 3u);
  EXPECT_EQ(models[0].id, "sd_xl");
  EXPECT_EQ(models[0].component, "base");
  EXPECT_EQ(models[1].id, "sd_refiner");
  EXPECT_EQ(models[2].id, "anime");  // as --model has it
}

TEST(ServedModelsTest, AModelOfVideosIsNone) {
  const auto models = ModelsOf(Serving(
      {{.component = "video", .draws_videos = true}, {.component = "base", .path = "/models/sd"}}));
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(models[0].component, "base");
  EXPECT_THAT(std::string(FindModel({}, "video").status().message()), HasSubstr("pictures"));
}

TEST(ServedModelsTest, NoTwoHaveOneName) {
  const auto models = ModelsOf(Serving({{.component = "base", .path = "/models/sd"},
                                        {.component = "refiner", .path = "/others/sd"}}));
  EXPECT_EQ(models[0].id, "sd");
  EXPECT_EQ(models[1].id, "refiner");
}

TEST(ServedModelsTest, OneIsFoundByEitherName) {
  const std::vector<ServedModel> models = {{"sd_xl", "base", 20}, {"sd_refiner", "refiner", 30}};
  for (const char* name :
       {"sd_xl", "base", "", "gpt-image-1", "chatgpt-image-latest", "dall-e-3"}) {
    ASSERT_OK_AND_ASSIGN(const ServedModel model, FindModel(models, name));
    EXPECT_EQ(model.component, "base") << name;
  }
  for (const char* name : {"sd_refiner", "refiner"}) {
    ASSERT_OK_AND_ASSIGN(const ServedModel model, FindModel(models, name));
    EXPECT_EQ(model.component, "refiner") << name;
  }
  for (const char* name : {"SD_XL", "sd_xl ", "gpt-4", "sd"}) {
    const absl::Status missing = FindModel(models, name).status();
    EXPECT_EQ(GetReason(missing), kModelNotFound) << name;
    EXPECT_THAT(std::string(missing.message()), HasSubstr("sd_xl, sd_refiner")) << name;
  }
  EXPECT_EQ(GetReason(FindModel({}, "").status()), kModelNotFound);
}

}  // namespace
}  // namespace latentd::server::http
