// Judgement of a request before its body is read.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/http/exchange/exchange.h"
#include "server/http/routes/router.h"

namespace latentd::server::http {

// Most bytes of a body, given the most of a request for pictures by gRPC: in base64 a picture is a
// third larger.
int64_t MostBodyBytes(const Route& route, const Request& request, int64_t max_request_bytes);

// INVALID_ARGUMENT, reason TOO_LARGE or WRONG_MEDIA_TYPE. `length` is that of the body, where it is
// said.
absl::Status CheckBody(const Request& request, std::optional<uint64_t> length, int64_t most);

// INVALID_ARGUMENT, reason MALFORMED, where another server on the way may have read something else:
// Host that is missing (of HTTP/1.1, `version` 11) or there twice, and a Transfer-Encoding but
// "chunked" of HTTP/1.1.
absl::Status CheckHead(const Request& request, unsigned version);

// Time that a body of so many bytes may take to come.
absl::Duration TimeFor(int64_t bytes);

// When the request is to be done, by the clock on the wall, as the header x-request-timeout says in
// seconds; InfiniteFuture: there is none. INVALID_ARGUMENT: it is no number above 0.
absl::StatusOr<absl::Time> DeadlineOf(const Request& request, absl::Time now);

}  // namespace latentd::server::http
