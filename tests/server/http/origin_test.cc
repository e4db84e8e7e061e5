#include "server/http/exchange/origin.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/errors/error_details.h"
#include "server/http/exchange/http_status.h"

namespace latentd::server::http {
namespace {

absl::Status CheckPost(std::vector<Header> headers, bool loopback_only = false) {
  return CheckOrigin({.method = "POST", .headers = std::move(headers)}, loopback_only);
}

TEST(OriginTest, NamesOfThisMachineAreTakenWhereItAloneAsks) {
  for (const char* host : {"localhost", "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:8080",
                           "127.9.9.9", "[::1]", "[::1]:8080", ""}) {
    EXPECT_TRUE(CheckPost({{"Host", host}}, true).ok()) << host;
  }
}

TEST(OriginTest, OtherNamesAreNot) {
  for (const char* host :
       {"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example",
        "192.0.2.1", "[2001:db8::1]", "::1", "a:b:c", "]", "localhost@evil.example"}) {
    EXPECT_EQ(GetReason(CheckPost({{"Host", host}}, true)), kWrongHost) << host;
    EXPECT_TRUE(CheckPost({{"Host", host}}, false).ok()) << host;
  }
  // To read, too.
  EXPECT_EQ(GetReason(CheckOrigin({.method = "GET", .headers = {{"Host", "evil.example"}}}, true)),
            kWrongHost);
}

TEST(OriginTest, APageOfItsOwnMayPost) {
  EXPECT_TRUE(CheckPost({{"Host", "a.example:8080"}}).ok());
  EXPECT_TRUE(CheckPost({{"Host", "a.example:8080"}, {"Origin", "http://a.example:8080"}}).ok());
  EXPECT_TRUE(CheckPost({{"Host", "A.example"}, {"origin", "https://a.EXAMPLE"}}).ok());
  EXPECT_TRUE(CheckPost({{"Host", "a.example"}, {"Sec-Fetch-Site", "same-origin"}}).ok());
}

TEST(OriginTest, PagesOfOthersMayNot) {
  const Header host = {"Host", "a.example:8080"};
  for (const char* origin : {"http://evil.example", "http://a.example", "http://a.example:80801",
                             "https://a.example:8080.evil.example", "null", "http://"}) {
    EXPECT_TRUE(absl::IsPermissionDenied(CheckPost({host, {"Origin", origin}}))) << origin;
  }
  EXPECT_TRUE(absl::IsPermissionDenied(CheckPost({host, {"Sec-Fetch-Site", "cross-site"}})));
  EXPECT_TRUE(absl::IsPermissionDenied(
      CheckPost({host, {"Origin", "http://a.example:8080"}, {"Sec-Fetch-Site", "cross-site"}})));
}

TEST(OriginTest, ReadingIsForAll) {
  EXPECT_TRUE(CheckOrigin({.method = "GET",
                           .headers = {{"Host", "a"},
                                       {"Origin", "http://evil.example"},
                                       {"Sec-Fetch-Site", "cross-site"}}},
                          false)
                  .ok());
}

}  // namespace
}  // namespace latentd::server::http
