#include "server/http/exchange/http_status.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/errors/error_details.h"

namespace latentd::server::http {
namespace {

constexpr char kInvalid[] = "invalid_request_error";
constexpr char kServer[] = "server_error";
constexpr char kLimit[] = "rate_limit_error";

struct ReasonRow {
  absl::string_view reason;
  HttpStatus status;
};
constexpr ReasonRow kReasons[] = {
    {kNoSuchRoute, {404, kInvalid}},
    {kMethodNotAllowed, {405, kInvalid}},
    {kTooLarge, {413, kInvalid}},
    {kHeaderTooLarge, {431, kInvalid}},
    {kWrongMediaType, {415, kInvalid}},
    {kTooSlow, {408, kInvalid}},
    {kTooManyBodies, {503, kServer}},
    {kWrongHost, {421, kInvalid}},
    {kModelNotFound, {404, kInvalid}},
    // No 409, which clients try again.
    {"CHECKPOINT_CHANGED", {503, kServer, true}},
    {"QUEUE_FULL", {429, kLimit}},
};

HttpStatus ByCode(const absl::Status& status) {
  const bool comes_back = GetRetryDelay(status).has_value();
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
      return {400, kInvalid};
    case absl::StatusCode::kUnauthenticated:
      return {401, kInvalid};
    case absl::StatusCode::kPermissionDenied:
      return {403, "permission_error"};
    case absl::StatusCode::kNotFound:
      return {404, kInvalid};
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
      return {409, kInvalid, true};
    case absl::StatusCode::kResourceExhausted:
      return {503, kServer, !comes_back};
    case absl::StatusCode::kDeadlineExceeded:
      return comes_back ? HttpStatus{429, kLimit} : HttpStatus{504, "timeout_error", true};
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:
      return {503, kServer};
    default:
      return {500, kServer, true};
  }
}

}  // namespace

HttpStatus StatusOf(const absl::Status& status) {
  const std::string reason = GetReason(status);
  for (const ReasonRow& row : kReasons) {
    if (row.reason == reason) return row.status;
  }
  return ByCode(status);
}

absl::string_view PhraseOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Internal Server Error";
  }
}

std::vector<Header> ErrorHeaders(const absl::Status& status) {
  std::vector<Header> headers;
  if (const auto delay = GetRetryDelay(status)) {
    const int64_t millis = std::max<int64_t>(absl::ToInt64Milliseconds(*delay), 1);
    headers.emplace_back("Retry-After", absl::StrCat((millis + 999) / 1000));
    headers.emplace_back("retry-after-ms", absl::StrCat(millis));
  }
  if (absl::IsUnauthenticated(status)) {
    headers.emplace_back("WWW-Authenticate", "Bearer, Basic realm=\"latentd\"");
  }
  if (StatusOf(status).is_final) headers.emplace_back("x-should-retry", "false");
  return headers;
}

bool ClosesConnection(const absl::Status& status) {
  const int code = StatusOf(status).code;
  return code == 408 || code == 413 || code == 431 || GetReason(status) == "DRAINING" ||
         GetReason(status) == kTooManyBodies;
}

}  // namespace latentd::server::http
