// Requests that a browser makes for a page of another site. A browser may post a form to any
// address that it reaches, and a page may have a name of its own that leads to this machine.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/http/exchange/exchange.h"

namespace latentd::server::http {

// Origins whose pages may ask, besides the server's own: "https://a.example", or "*", which is any.
using Origins = std::vector<std::string>;

// PERMISSION_DENIED for what a page of another site asks for, unless it is of `allowed`.
// INVALID_ARGUMENT, reason WRONG_HOST, where the server listens on this machine alone and the
// request is for a host of another name.
absl::Status CheckOrigin(const Request& request, bool loopback_only, const Origins& allowed = {});

// Headers that let a page of an allowed origin read the answer (CORS); they never allow credentials
// of the browser's.
std::vector<Header> CorsHeaders(const Request& request, const Origins& allowed);

// True where a browser asks, for a page of an allowed origin, what it may send; the answer to that
// has CorsHeaders beside its own.
bool IsPreflight(const Request& request, const Origins& allowed);
Answer PreflightAnswer();

}  // namespace latentd::server::http
