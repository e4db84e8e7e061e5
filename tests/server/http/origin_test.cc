#include "server/http/exchange/origin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/errors/error_details.h"
#include "server/http/exchange/http_status.h"

namespace latentd::server::http {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

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
    EXPECT_TRUE(absl::IsPermissionDenied(
        CheckOrigin({.method = "DELETE", .headers = {host, {"Origin", origin}}}, false)))
        << origin;
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

const Origins& Allowed() {
  static const auto& origins = *new Origins{"https://app.example", "http://localhost:3000"};
  return origins;
}

Request From(const char* method, const char* origin) {
  return {.method = method,
          .headers = {{"Host", "a.example"},
                      {"Origin", origin},
                      {"Sec-Fetch-Site", "cross-site"},
                      {"Access-Control-Request-Method", "POST"}}};
}

TEST(OriginTest, AnAllowedPageMayPost) {
  EXPECT_TRUE(CheckOrigin(From("POST", "https://app.example"), false, Allowed()).ok());
  EXPECT_TRUE(CheckOrigin(From("POST", "http://localhost:3000"), false, Allowed()).ok());
  EXPECT_TRUE(CheckOrigin(From("POST", "http://any.example"), false, {"*"}).ok());
  for (const char* other : {"http://app.example", "https://app.example:444", "https://app.example/",
                            "https://app.example.evil", "http://localhost", "null", ""}) {
    EXPECT_FALSE(CheckOrigin(From("POST", other), false, Allowed()).ok()) << other;
  }
  // The host is judged all the same.
  EXPECT_EQ(GetReason(CheckOrigin(From("POST", "https://app.example"), true, Allowed())),
            kWrongHost);
}

TEST(OriginTest, OnlyAnAllowedPageMayRead) {
  EXPECT_THAT(CorsHeaders(From("GET", "https://app.example"), Allowed()),
              ElementsAre(Pair("Vary", "Origin"),
                          Pair("Access-Control-Allow-Origin", "https://app.example"),
                          Pair("Access-Control-Expose-Headers", "x-request-id, retry-after-ms")));
  EXPECT_THAT(CorsHeaders(From("GET", "https://evil.example"), Allowed()),
              ElementsAre(Pair("Vary", "Origin")));
  EXPECT_THAT(CorsHeaders(From("GET", "https://app.example"), {}), IsEmpty());
}

TEST(OriginTest, APreflightIsThatOfAnAllowedPage) {
  EXPECT_TRUE(IsPreflight(From("OPTIONS", "https://app.example"), Allowed()));
  EXPECT_FALSE(IsPreflight(From("OPTIONS", "https://evil.example"), Allowed()));
  EXPECT_FALSE(IsPreflight(From("POST", "https://app.example"), Allowed()));
  EXPECT_FALSE(IsPreflight({.method = "OPTIONS", .headers = {{"Origin", "https://app.example"}}},
                           Allowed()));
  const Answer answer = PreflightAnswer();
  EXPECT_EQ(answer.code, 204);
  EXPECT_EQ(answer.body.size(), 0);
  EXPECT_THAT(answer.headers, Contains(Pair("Access-Control-Allow-Methods", "GET, POST, DELETE")));
  for (const Header& header : answer.headers) {
    EXPECT_NE(header.first, "Access-Control-Allow-Credentials");
  }
}

}  // namespace
}  // namespace latentd::server::http
