#include "server/http/exchange/target.h"

#include <gtest/gtest.h>

namespace latentd::server::http {
namespace {

TEST(TargetTest, PathAndQuery) {
  const struct {
    const char *target, *path, *query;
  } kTargets[] = {
      {"/v1/models", "/v1/models", ""},
      {"/v1/models?a=1?b", "/v1/models", "a=1?b"},
      {"/a?url=http://b/c", "/a", "url=http://b/c"},
      {"http://host:1/a?b", "/a", "b"},
      {"http://host", "/", ""},
      {"HTTPS://host/a", "/a", ""},
      {"http://host?a=/b", "/", "a=/b"},
      {"x://host/a", "x://host/a", ""},
      {"x?://host/a", "x", "://host/a"},
      {"/http://host/a", "/http://host/a", ""},
      {"*", "*", ""},
      {"", "", ""},
  };
  for (const auto& [target, path, query] : kTargets) {
    Request request = {.query = "left"};
    SetTarget(target, request);
    EXPECT_EQ(request.path, path) << target;
    EXPECT_EQ(request.query, query) << target;
  }
}

TEST(DecodePercentTest, DigitsStandForBytes) {
  const struct {
    const char *text, *decoded;
  } kTexts[] = {
      {"a%2Fb%2fc", "a/b/c"}, {"%C3%A9", "\xc3\xa9"}, {"%2525", "%25"}, {"a+b", "a+b"}, {"%", "%"},
      {"%4", "%4"},           {"%4x1", "%4x1"},       {"%%41", "%A"},   {"", ""}};
  for (const auto& [text, decoded] : kTexts) EXPECT_EQ(DecodePercent(text), decoded) << text;
}

}  // namespace
}  // namespace latentd::server::http
