// The one place where a status of ours becomes a status of HTTP.
//
// An error that HTTP alone knows (no such path, a body that is too large) is a status with one of
// the reasons below.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/http/exchange/exchange.h"

namespace latentd::server::http {

inline constexpr absl::string_view kNoSuchRoute = "NO_SUCH_ROUTE";
inline constexpr absl::string_view kMethodNotAllowed = "METHOD_NOT_ALLOWED";
inline constexpr absl::string_view kTooLarge = "TOO_LARGE";
inline constexpr absl::string_view kHeaderTooLarge = "HEADER_TOO_LARGE";
inline constexpr absl::string_view kWrongMediaType = "WRONG_MEDIA_TYPE";
inline constexpr absl::string_view kTooSlow = "TOO_SLOW";
inline constexpr absl::string_view kTooManyBodies = "TOO_MANY_BODIES";
inline constexpr absl::string_view kWrongHost = "WRONG_HOST";
inline constexpr absl::string_view kModelNotFound = "MODEL_NOT_FOUND";
inline constexpr absl::string_view kUnknownParameter = "UNKNOWN_PARAMETER";
inline constexpr absl::string_view kUnsupportedValue = "UNSUPPORTED_VALUE";

struct HttpStatus {
  int code;
  const char* type;  // the type in OpenAI's errors
  // It would fail again: clients that retry whatever looks like a fault are told not to.
  bool is_final = false;
};

// REQUIRES: not OK.
HttpStatus StatusOf(const absl::Status& status);

// "Not Found"
absl::string_view PhraseOf(int code);

// Retry-After and what else the head says of the error.
std::vector<Header> ErrorHeaders(const absl::Status& status);

// The connection is of no use behind an answer of that kind: the body was not read.
bool ClosesConnection(const absl::Status& status);

}  // namespace latentd::server::http
