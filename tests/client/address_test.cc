#include "client/options/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/support/status_matchers.h"

namespace latentd::client {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(AddressTest, HasAPortThatThereIs) {
  for (const char* good :
       {"127.0.0.1:50051", "[::1]:1", "host.name:65535", "unix:/run/latentd", "unix:///run/latentd",
        "dns:///host.name:50051", "ipv4:127.0.0.1:50051", "ipv6:[::1]:50051"}) {
    EXPECT_OK(CheckAddress(good)) << good;
  }
  for (const char* bad : {"host:99999", "host:65536", "host:0", "host:-1", "host:", ":50051",
                          "host:http", "unix:", ""}) {
    EXPECT_THAT(CheckAddress(bad), StatusIs(kInvalid, HasSubstr("1 to 65535"))) << bad;
  }
}

TEST(AddressTest, OfAUrlTheSchemeIsLeftOut) {
  for (const char* url : {"http://host:1234", "http://host:1234/", "HTTP://host:1234/path?x",
                          "grpc://host:1234", "tcp://host:1234"}) {
    EXPECT_THAT(CheckAddress(url),
                StatusIs(kInvalid, AllOf(HasSubstr("://"), HasSubstr("--server host:1234"),
                                         Not(HasSubstr("--tls")))))
        << url;
  }
  EXPECT_THAT(CheckAddress("http://host"), StatusIs(kInvalid, HasSubstr("--server host:50051")));
  EXPECT_THAT(CheckAddress("http://"), StatusIs(kInvalid, HasSubstr("--server HOST:50051")));
  for (const char* url : {"https://host:1234", "grpcs://host:1234"}) {
    EXPECT_THAT(CheckAddress(url), StatusIs(kInvalid, HasSubstr("--server host:1234 --tls")))
        << url;
  }
}

TEST(AddressTest, WhatIsMissingIsPutIn) {
  for (const auto& [typed, meant] :
       {std::pair("localhost", "localhost:50051"), std::pair("50052", "127.0.0.1:50052"),
        std::pair("/run/latentd.sock", "unix:/run/latentd.sock"),
        std::pair("::1:50051", "[::1]:50051")}) {
    EXPECT_THAT(CheckAddress(typed), StatusIs(kInvalid, HasSubstr(meant))) << typed;
  }
}

}  // namespace
}  // namespace latentd::client
