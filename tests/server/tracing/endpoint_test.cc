#include "server/tracing/endpoint.h"

#include <gtest/gtest.h>

namespace latentd::server::tracing {
namespace {

TEST(EndpointTest, IsAnAddressOrAUrl) {
  for (const auto& [text, endpoint] : std::vector<std::pair<std::string, Endpoint>>{
           {"collector:4317", {"collector:4317", false}},
           {"127.0.0.1:1", {"127.0.0.1:1", false}},
           {"[::1]:65535", {"[::1]:65535", false}},
           {"http://collector", {"collector:4317", false}},
           {"http://collector.traces.svc:80/", {"collector.traces.svc:80", false}},
           {"https://collector", {"collector:4317", true}},
           {"https://[2001:db8::1]", {"[2001:db8::1]:4317", true}},
           {"https://[2001:db8::1]:443", {"[2001:db8::1]:443", true}}}) {
    const auto parsed = ParseEndpoint(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(*parsed, endpoint) << text;
  }
}

TEST(EndpointTest, AnythingElseIsNone) {
  for (const char* text : {"",
                           "collector",
                           "collector:",
                           "collector:0",
                           "collector:65536",
                           "collector:+1",
                           "collector: 1",
                           "collector:4317x",
                           "collector:99999999999",
                           ":4317",
                           "http://",
                           "http://:4317",
                           "https://collector:0",
                           "http://collector:4318/v1/traces",
                           "collector:4317/",
                           "grpc://collector:4317",
                           "HTTP://collector:4317",
                           "unix:/run/otlp",
                           "::1:4317",
                           "[::1:4317",
                           "::1]:4317",
                           "[]:4317",
                           "user@collector:4317",
                           "two words:4317",
                           "http://http://collector:4317",
                           "dns:///collector:4317"}) {
    EXPECT_FALSE(ParseEndpoint(text)) << text;
  }
}

}  // namespace
}  // namespace latentd::server::tracing
