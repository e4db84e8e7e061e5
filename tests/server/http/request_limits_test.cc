#include "server/http/routes/request_limits.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/errors/error_details.h"
#include "server/http/exchange/http_status.h"

namespace latentd::server::http {
namespace {

constexpr int64_t kBeside = 256 << 10;

TEST(RequestLimitsTest, ABodyMayHaveAPictureWhereTheRouteHas) {
  const Request json = {.headers = {{"Content-Type", "application/json"}}};
  const Request form = {.headers = {{"Content-Type", "multipart/form-data; boundary=b"}}};
  const Route plain = {.method = "POST", .path = "/a"};
  const Route draws = {.method = "POST", .path = "/b", .has_picture = true};
  EXPECT_EQ(MostBodyBytes(plain, json, 1 << 20), kBeside);
  EXPECT_EQ(MostBodyBytes(plain, form, 1 << 20), kBeside);
  EXPECT_EQ(MostBodyBytes(draws, form, 1000), 1000 + kBeside);
  // Base64 of so many bytes.
  EXPECT_EQ(MostBodyBytes(draws, json, 3000), 4000 + kBeside);
  EXPECT_EQ(MostBodyBytes(draws, json, 3001), 4004 + kBeside);
  EXPECT_EQ(MostBodyBytes(draws, {}, 3000), 4000 + kBeside);
}

TEST(RequestLimitsTest, TheSizeIsJudgedWhereItIsSaid) {
  EXPECT_TRUE(CheckBody({}, 100, 100).ok());
  EXPECT_TRUE(CheckBody({}, std::nullopt, 100).ok());
  EXPECT_EQ(GetReason(CheckBody({}, 101, 100)), kTooLarge);
  EXPECT_EQ(GetReason(CheckBody({}, ~uint64_t{0}, 100)), kTooLarge);
}

TEST(RequestLimitsTest, NothingIsUnpacked) {
  const auto coded = [](const char* coding) {
    return GetReason(CheckBody({.headers = {{"Content-Encoding", coding}}}, 1, 100));
  };
  EXPECT_EQ(coded("gzip"), kWrongMediaType);
  EXPECT_EQ(coded("identity, gzip"), kWrongMediaType);
  EXPECT_EQ(coded("Identity"), "");
  EXPECT_EQ(coded(""), "");
}

TEST(RequestLimitsTest, ABodyHasTimeByItsSize) {
  EXPECT_EQ(TimeFor(0), absl::Seconds(10));
  EXPECT_EQ(TimeFor(64 << 10), absl::Seconds(11));
  EXPECT_EQ(TimeFor(int64_t{290} * (64 << 10)), absl::Minutes(5));
  EXPECT_EQ(TimeFor(int64_t{1} << 40), absl::Minutes(5));
}

TEST(RequestLimitsTest, ADeadlineIsWhatAClientWaits) {
  const absl::Time now = absl::FromUnixSeconds(1000);
  const auto deadline = [&](const char* says) {
    return DeadlineOf({.headers = {{"X-Request-Timeout", says}}}, now);
  };
  EXPECT_EQ(deadline("1.5").value(), now + absl::Milliseconds(1500));
  EXPECT_EQ(deadline("1e300").value(), absl::InfiniteFuture());
  EXPECT_EQ(deadline("").value(), absl::InfiniteFuture());
  EXPECT_EQ(DeadlineOf({}, now).value(), absl::InfiniteFuture());
  for (const char* says : {"0", "-1", "soon", "1s", "nan", "inf", "1e400"}) {
    const auto violations = GetFieldViolations(deadline(says).status());
    ASSERT_EQ(violations.size(), 1u) << says;
    EXPECT_EQ(violations.front().field, "x-request-timeout");
  }
}

TEST(RequestLimitsTest, AHeadReadsTheSameToEveryServer) {
  const auto why = [](std::vector<Header> headers, unsigned version = 11) {
    return std::string(CheckHead({.headers = std::move(headers)}, version).message());
  };
  const Header host = {"host", "a"};
  EXPECT_EQ(why({host}), "");
  EXPECT_EQ(why({}, 10), "");
  EXPECT_EQ(why({}), "Host is missing");
  EXPECT_EQ(why({host, {"Host", "a"}}), "Host is there more than once");
  EXPECT_EQ(why({host, host}, 10), "Host is there more than once");
  EXPECT_EQ(why({host, {"Transfer-Encoding", "Chunked"}}), "");
  for (const char* coding : {"gzip", "gzip, chunked", "chunked, chunked", "identity", ""}) {
    EXPECT_EQ(why({host, {"transfer-encoding", coding}}),
              "a Transfer-Encoding but chunked is not taken")
        << coding;
  }
  EXPECT_EQ(why({host, {"Transfer-Encoding", "chunked"}}, 10), "HTTP/1.0 has no Transfer-Encoding");
}

}  // namespace
}  // namespace latentd::server::http
