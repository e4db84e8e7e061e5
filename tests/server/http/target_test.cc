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

}  // namespace
}  // namespace latentd::server::http
