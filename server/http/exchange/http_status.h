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

inline constexpr char kNoSuchRoute[] = "NO_SUCH_ROUTE";
inline constexpr char kMethodNotAllowed[] = "METHOD_NOT_ALLOWED";
inline constexpr char kTooLarge[] = "TOO_LARGE";
inline constexpr char kHeaderTooLarge[] = "HEADER_TOO_LARGE";
inline constexpr char kWrongMediaType[] = "WRONG_MEDIA_TYPE";
inline constexpr char kTooSlow[] = "TOO_SLOW";
inline constexpr char kTooManyBodies[] = "TOO_MANY_BODIES";
inline constexpr char kWrongHost[] = "WRONG_HOST";
inline constexpr char kModelNotFound[] = "MODEL_NOT_FOUND";
inline constexpr char kUnknownParameter[] = "UNKNOWN_PARAMETER";
inline constexpr char kUnsupportedValue[] = "UNSUPPORTED_VALUE";

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
