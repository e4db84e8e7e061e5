#include "server/process/logs/handshake_failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/process/logs/rate_limit.h"
#include "tests/support/fake_clock.h"

namespace latentd::server::process {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;

std::optional<std::string> Explain(const std::string& error) {
  return ExplainHandshakeFailure(absl::StrCat(
      "Handshake failed with fatal error SSL_ERROR_SSL: error:0A000000:SSL routines::", error,
      "."));
}

TEST(HandshakeFailureTest, NamesWhatIsWrong) {
  EXPECT_THAT(Explain("wrong version number"), Optional(HasSubstr("does not speak TLS")));
  EXPECT_THAT(Explain("unsupported protocol"), Optional(HasSubstr("older than 1.2")));
  EXPECT_THAT(Explain("tlsv1 alert unknown ca"),
              Optional(AllOf(HasSubstr("does not trust"), HasSubstr("alert unknown ca"))));
  EXPECT_THAT(Explain("sslv3 alert certificate expired"), Optional(HasSubstr("has expired")));
}

TEST(HandshakeFailureTest, KeepsWhatItDoesNotKnow) {
  EXPECT_THAT(Explain("something new"), Optional(HasSubstr("something new")));
}

TEST(HandshakeFailureTest, LeavesOtherLinesAlone) {
  EXPECT_EQ(ExplainHandshakeFailure("Connection reset by peer"), std::nullopt);
}

TEST(RateLimitTest, CountsWhatItKeepsBack) {
  testing::FakeClock clock;
  RateLimit limit(clock, absl::Seconds(1));
  EXPECT_THAT(limit.Take(), Optional(0));
  EXPECT_EQ(limit.Take(), std::nullopt);
  EXPECT_EQ(limit.Take(), std::nullopt);
  clock.Advance(absl::Seconds(1));
  EXPECT_THAT(limit.Take(), Optional(2));
  clock.Advance(absl::Seconds(1));
  EXPECT_THAT(limit.Take(), Optional(0));
}

}  // namespace
}  // namespace latentd::server::process
