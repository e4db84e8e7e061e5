#include "server/http/exchange/http_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/base/errors/error_details.h"

namespace latentd::server::http {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

absl::Status Because(absl::StatusCode code, absl::string_view reason) {
  return WithReason(absl::Status(code, "why"), reason);
}

struct CodeRow {
  absl::StatusCode code;
  int http;
  absl::string_view type;
  bool is_final;
};
constexpr CodeRow kCodeRows[] = {
    {absl::StatusCode::kCancelled, 503, "server_error", false},
    {absl::StatusCode::kUnknown, 500, "server_error", true},
    {absl::StatusCode::kInvalidArgument, 400, "invalid_request_error", false},
    {absl::StatusCode::kDeadlineExceeded, 504, "timeout_error", true},
    {absl::StatusCode::kNotFound, 404, "invalid_request_error", false},
    {absl::StatusCode::kAlreadyExists, 409, "invalid_request_error", true},
    {absl::StatusCode::kPermissionDenied, 403, "permission_error", false},
    {absl::StatusCode::kResourceExhausted, 503, "server_error", true},
    {absl::StatusCode::kFailedPrecondition, 400, "invalid_request_error", false},
    {absl::StatusCode::kAborted, 409, "invalid_request_error", true},
    {absl::StatusCode::kOutOfRange, 400, "invalid_request_error", false},
    {absl::StatusCode::kUnimplemented, 500, "server_error", true},
    {absl::StatusCode::kInternal, 500, "server_error", true},
    {absl::StatusCode::kUnavailable, 503, "server_error", false},
    {absl::StatusCode::kDataLoss, 500, "server_error", true},
    {absl::StatusCode::kUnauthenticated, 401, "invalid_request_error", false},
};

TEST(HttpStatusTest, EveryCodeOfOursHasOne) {
  std::set<int> codes;
  for (const CodeRow& row : kCodeRows) {
    const HttpStatus status = StatusOf(absl::Status(row.code, "why"));
    EXPECT_EQ(status.code, row.http) << absl::StatusCodeToString(row.code);
    EXPECT_EQ(status.type, row.type) << absl::StatusCodeToString(row.code);
    EXPECT_EQ(status.is_final, row.is_final) << absl::StatusCodeToString(row.code);
    codes.insert(static_cast<int>(row.code));
  }
  EXPECT_EQ(codes.size(), 16u);  // all but OK
}

struct ReasonCase {
  absl::StatusCode code;
  absl::string_view reason;
  int http;
  bool closes;
};
constexpr ReasonCase kReasonCases[] = {
    {absl::StatusCode::kNotFound, kNoSuchRoute, 404, false},
    {absl::StatusCode::kInvalidArgument, kMethodNotAllowed, 405, false},
    {absl::StatusCode::kInvalidArgument, kTooLarge, 413, true},
    {absl::StatusCode::kInvalidArgument, kHeaderTooLarge, 431, true},
    {absl::StatusCode::kInvalidArgument, kWrongMediaType, 415, false},
    {absl::StatusCode::kInvalidArgument, kTooSlow, 408, true},
    {absl::StatusCode::kResourceExhausted, kTooManyBodies, 503, true},
    {absl::StatusCode::kInvalidArgument, kWrongHost, 421, false},
    {absl::StatusCode::kInvalidArgument, kModelNotFound, 404, false},
    {absl::StatusCode::kInvalidArgument, kUnknownParameter, 400, false},
    {absl::StatusCode::kInvalidArgument, kUnsupportedValue, 400, false},
    {absl::StatusCode::kFailedPrecondition, "CHECKPOINT_CHANGED", 503, false},
    {absl::StatusCode::kFailedPrecondition, "BUCKET_COLD", 400, false},
    {absl::StatusCode::kResourceExhausted, "QUEUE_FULL", 429, false},
    {absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY", 503, false},
    {absl::StatusCode::kUnavailable, "DRAINING", 503, true},
    {absl::StatusCode::kUnavailable, "LOADING", 503, false},
};

TEST(HttpStatusTest, SomeReasonsHaveAnother) {
  for (const ReasonCase& row : kReasonCases) {
    const absl::Status status = Because(row.code, row.reason);
    EXPECT_EQ(StatusOf(status).code, row.http) << row.reason;
    EXPECT_EQ(ClosesConnection(status), row.closes) << row.reason;
  }
  EXPECT_TRUE(
      StatusOf(Because(absl::StatusCode::kFailedPrecondition, "CHECKPOINT_CHANGED")).is_final);
  EXPECT_FALSE(StatusOf(Because(absl::StatusCode::kResourceExhausted, "QUEUE_FULL")).is_final);
  EXPECT_STREQ(StatusOf(Because(absl::StatusCode::kResourceExhausted, "QUEUE_FULL")).type,
               "rate_limit_error");
}

TEST(HttpStatusTest, WhatComesBackIsWorthTryingAgain) {
  const auto later = [](absl::StatusCode code) {
    return StatusOf(WithRetryDelay(absl::Status(code, "why"), absl::Seconds(1)));
  };
  const HttpStatus overrun = later(absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(overrun.code, 429);
  EXPECT_STREQ(overrun.type, "rate_limit_error");
  EXPECT_FALSE(overrun.is_final);
  EXPECT_EQ(later(absl::StatusCode::kResourceExhausted).code, 503);
  EXPECT_FALSE(later(absl::StatusCode::kResourceExhausted).is_final);
}

TEST(HttpStatusTest, DelaysAreRoundedUpToSeconds) {
  const auto headers = [](absl::Duration delay) {
    return ErrorHeaders(WithRetryDelay(absl::UnavailableError("why"), delay));
  };
  EXPECT_THAT(headers(absl::Milliseconds(1000)),
              ElementsAre(Pair("Retry-After", "1"), Pair("retry-after-ms", "1000")));
  EXPECT_THAT(headers(absl::Milliseconds(1001)),
              ElementsAre(Pair("Retry-After", "2"), Pair("retry-after-ms", "1001")));
  // 0 would mean a client's own pause.
  EXPECT_THAT(headers(absl::ZeroDuration()),
              ElementsAre(Pair("Retry-After", "1"), Pair("retry-after-ms", "1")));
  EXPECT_THAT(ErrorHeaders(absl::UnavailableError("why")), IsEmpty());
  EXPECT_THAT(ErrorHeaders(absl::UnauthenticatedError("who")),
              ElementsAre(Pair("WWW-Authenticate", "Bearer, Basic realm=\"latentd\"")));
  EXPECT_THAT(ErrorHeaders(absl::InternalError("why")),
              ElementsAre(Pair("x-should-retry", "false")));
}

TEST(HttpStatusTest, EveryCodeHasItsPhrase) {
  std::set<std::string> phrases;
  std::set<int> codes = {200, 204, 422};
  for (const CodeRow& row : kCodeRows) codes.insert(row.http);
  for (const ReasonCase& row : kReasonCases) codes.insert(row.http);
  for (const int code : codes) phrases.emplace(PhraseOf(code));
  EXPECT_EQ(phrases.size(), codes.size());
  EXPECT_EQ(PhraseOf(500), "Internal Server Error");
  EXPECT_EQ(PhraseOf(413), "Content Too Large");
}

}  // namespace
}  // namespace latentd::server::http
