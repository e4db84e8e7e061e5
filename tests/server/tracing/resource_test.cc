#include "server/tracing/resource.h"

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/support/status_matchers.h"

namespace latentd::server::tracing {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::map<std::string, std::string> AttributesOf(const char* service_name, const char* attributes) {
  std::map<std::string, std::string> values;
  const auto resource = MakeResource("0.1.0", service_name, attributes);
  EXPECT_OK(resource);
  if (!resource.ok()) return values;
  for (const auto& attribute : resource->attributes()) {
    EXPECT_TRUE(values.emplace(attribute.key(), attribute.value().string_value()).second);
  }
  return values;
}

TEST(ResourceTest, IsLatentdOfItsVersionUnlessItIsToldOtherwise) {
  for (const char* nothing : {static_cast<const char*>(nullptr), ""}) {
    EXPECT_THAT(AttributesOf(nothing, nothing),
                ElementsAre(Pair("service.name", "latentd"), Pair("service.version", "0.1.0")));
  }
  EXPECT_EQ(AttributesOf("stars", nullptr)["service.name"], "stars");
  EXPECT_EQ(AttributesOf(nullptr, "service.name=moons")["service.name"], "moons");
  EXPECT_EQ(AttributesOf("stars", "service.name=moons")["service.name"], "stars");
}

TEST(ResourceTest, TakesAttributesWithPercents) {
  EXPECT_THAT(AttributesOf(nullptr, " deployment.environment=test , k8s.pod=a%2Cb%3d%C3%A9,"),
              ElementsAre(Pair("deployment.environment", "test"), Pair("k8s.pod", "a,b=\xC3\xA9"),
                          Pair("service.name", "latentd"), Pair("service.version", "0.1.0")));
}

TEST(ResourceTest, NamesTheVariableThatIsWrong) {
  google::protobuf::LogSilencer silencer;
  for (const char* wrong : {"novalue", "=value", "a=%2", "a=%zz", "a=b,c", "a=%ff", "%ff=\xff"}) {
    EXPECT_THAT(MakeResource("0.1.0", nullptr, wrong),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("OTEL_RESOURCE_ATTRIBUTES")))
        << wrong;
  }
  EXPECT_THAT(MakeResource("0.1.0", "\xff", nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("OTEL_SERVICE_NAME")));
}

}  // namespace
}  // namespace latentd::server::tracing
