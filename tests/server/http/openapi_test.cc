// docs/openapi.yaml, held against the routes and the fields that they read. The file is read by its
// lines: paths are indented by two blanks and their methods by four, as schemas are and their
// properties by eight.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/errors/error_details.h"
#include "core/base/files/files.h"
#include "server/generation/active_calls.h"
#include "server/generation/kept_streams.h"
#include "server/http/openai/openai_request.h"
#include "server/http/routes/routes.h"
#include "server/http/sdapi/sdapi_request.h"
#include "server/http/videos/video_request.h"
#include "tests/server/fake_engine.h"
#include "tests/support/fake_clock.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::http {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using ::testing::Not;

struct Line {
  size_t indent;
  std::string key, value;  // "key: value"
};

std::vector<Line> LinesOf(const std::string& text) {
  std::vector<Line> lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view stripped = absl::StripLeadingAsciiWhitespace(line);
    if (stripped.empty() || stripped[0] == '#' || stripped[0] == '-') continue;
    const std::vector<std::string> parts = absl::StrSplit(stripped, absl::MaxSplits(':', 1));
    if (parts.size() != 2) continue;
    lines.push_back({line.size() - stripped.size(),
                     std::string(absl::StripAsciiWhitespace(parts[0])),
                     std::string(absl::StripAsciiWhitespace(parts[1]))});
  }
  return lines;
}

class OpenApiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(text_,
                         ReadFile(latentd::testing::SourcePath("docs/openapi.yaml"), 1 << 20));
    lines_ = LinesOf(text_);
  }

  // "GET /v1/models", of the routes that the file is to have, in their order.
  std::set<std::string> Served() {
    const process::Health health([] { return engine::Hangs(); });
    std::set<std::string> served;
    const VideoPaths videos({engine_, clock_, calls_, kept_}, videos_);
    for (const Route& route : MakeRoutes(engine_, health, running_, videos, {.version = "test"})) {
      const bool of_prefix =
          route.path.substr(0, 4) == "/v3/" || absl::StartsWith(route.path, "/images/") ||
          absl::StartsWith(route.path, "/models") || absl::StartsWith(route.path, "/videos");
      if (of_prefix) continue;
      served.insert(
          absl::StrCat(route.method, " ", absl::StrReplaceAll(route.path, {{"*", "{id}"}})));
    }
    return served;
  }

  // The same, of the file; a path that has another's methods names it: "*other".
  std::set<std::string> Described() const {
    std::map<std::string, std::set<std::string>> methods, named;
    std::string path;
    for (const Line& line : lines_) {
      if (line.indent == 0) path.clear();
      if (line.indent == 2 && absl::StartsWith(line.key, "/")) {
        path = line.key;
        if (absl::StartsWith(line.value, "*")) methods[path] = named[line.value.substr(1)];
      }
      const bool is_method = line.indent == 4 && !path.empty();
      if (is_method) methods[path].insert(absl::AsciiStrToUpper(line.key));
      if (is_method && !AnchorOf(path).empty()) named[AnchorOf(path)] = methods[path];
    }
    std::set<std::string> described;
    for (const auto& [where, all] : methods) {
      for (const std::string& method : all) described.insert(absl::StrCat(method, " ", where));
    }
    return described;
  }

  // "probe" of "/healthz: &probe"
  std::string AnchorOf(const std::string& path) const {
    for (const Line& line : lines_) {
      if (line.key == path && absl::StartsWith(line.value, "&")) return line.value.substr(1);
    }
    return "";
  }

  std::vector<std::string> PropertiesOf(const std::string& schema) const {
    std::vector<std::string> properties;
    bool inside = false;
    for (const Line& line : lines_) {
      if (line.indent == 4) inside = line.key == schema;
      if (inside && line.indent == 8) properties.push_back(line.key);
    }
    return properties;
  }

  // True if it is refused as unknown, or is passed over.
  static bool IsUnknown(const absl::Status& read, const SdapiForm& form) {
    for (const FieldViolation& violation : GetFieldViolations(read)) {
      if (absl::StrContains(violation.description, "is no parameter")) return true;
    }
    return !form.warnings.empty();
  }

  bool OpenAiKnows(const std::string& name, ImagesRoute route) const {
    latent::v1::GenerateRequest request;
    ImagesForm form;
    const std::string body = absl::StrCat("{\"", name, "\": {\"no\": 1}}");
    return !IsUnknown(
        ReadImagesRequest({.method = "POST", .body = body}, route, offer_, request, form), {});
  }

  static bool VideosKnow(const std::string& name) {
    latent::v1::GenerateVideoRequest request;
    VideoForm form;
    const std::string body = absl::StrCat("{\"", name, "\": {\"no\": 1}}");
    return !IsUnknown(ReadVideoRequest({.method = "POST", .body = body}, {}, request, form), {});
  }

  bool WebUiKnows(const std::string& name) const {
    latent::v1::GenerateRequest request;
    SdapiForm form;
    const std::string value = name == "override_settings" ? "{}" : "{\"no\": 1}";
    const std::string body = absl::StrCat("{\"", name, "\": ", value, "}");
    const absl::Status read = ReadSdapiRequest({.method = "POST", .body = body},
                                               /*image_to_image=*/true, offer_, request, form);
    return !IsUnknown(read, form);
  }

  std::string text_;
  std::vector<Line> lines_;
  FakeEngine engine_;
  testing::FakeClock clock_;
  generation::ActiveCalls calls_;
  generation::KeptStreams kept_{engine_, clock_};
  RunningCalls running_;
  VideoJobs videos_{clock_};
  const Offer offer_ = {.models = {{"sd_xl", "base", 20}}};
};

TEST_F(OpenApiTest, ItHasThePathsAndMethodsThatThereAre) {
  EXPECT_THAT(Described(), ElementsAreArray(Served()));
}

TEST_F(OpenApiTest, EveryPropertyIsRead) {
  const std::vector<std::string> fields = PropertiesOf("Fields");
  ASSERT_THAT(fields, Not(IsEmpty()));
  for (const char* schema : {"Fields", "ImagesFields"}) {
    ASSERT_THAT(PropertiesOf(schema), Not(IsEmpty())) << schema;
    for (const std::string& name : PropertiesOf(schema)) {
      EXPECT_TRUE(OpenAiKnows(name, ImagesRoute::kGenerations)) << name;
    }
  }
  ASSERT_THAT(PropertiesOf("EditsFields"), Not(IsEmpty()));
  for (const std::string& name : PropertiesOf("EditsFields")) {
    EXPECT_TRUE(OpenAiKnows(name, ImagesRoute::kEdits)) << name;
  }
  for (const char* schema : {"Fields", "SdapiRequest"}) {
    ASSERT_THAT(PropertiesOf(schema), Not(IsEmpty())) << schema;
    for (const std::string& name : PropertiesOf(schema)) EXPECT_TRUE(WebUiKnows(name)) << name;
  }
  ASSERT_THAT(PropertiesOf("VideosRequest"), Not(IsEmpty()));
  for (const std::string& name : PropertiesOf("VideosRequest")) {
    EXPECT_TRUE(VideosKnow(name)) << name;
  }
  EXPECT_FALSE(VideosKnow("no_such_field"));
  EXPECT_FALSE(OpenAiKnows("no_such_field", ImagesRoute::kGenerations));
  EXPECT_FALSE(WebUiKnows("no_such_field"));
}

// An operation's name is a function's in clients that are made of the file: none is there twice,
// and what is referred to is there.
TEST_F(OpenApiTest, NamesAreUniqueAndReferencesLeadSomewhere) {
  std::set<std::string> operations, defined;
  for (const Line& line : lines_) {
    if (line.key == "operationId") {
      EXPECT_TRUE(operations.insert(line.value).second) << line.value;
    }
    if (line.indent == 4) defined.insert(line.key);
  }
  int references = 0;
  for (const absl::string_view rest : absl::StrSplit(text_, "#/components/")) {
    if (references++ == 0) continue;  // before the first
    const std::vector<std::string> parts = absl::StrSplit(rest.substr(0, rest.find('"')), '/');
    ASSERT_EQ(parts.size(), 2u) << rest.substr(0, 40);
    EXPECT_EQ(defined.count(parts[1]), 1u) << parts[1];
  }
  EXPECT_GT(references, 20);
}

}  // namespace
}  // namespace latentd::server::http
