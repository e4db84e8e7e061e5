// Requests that a browser makes for a page of another site. A browser may post a form to any
// address that it reaches, and a page may have a name of its own that leads to this machine.
//
// Thread-safe: free functions without state.
#pragma once

#include "absl/status/status.h"
#include "server/http/exchange/exchange.h"

namespace latentd::server::http {

// PERMISSION_DENIED for what a page of another site asks for. INVALID_ARGUMENT, reason WRONG_HOST,
// where the server listens on this machine alone and the request is for a host of another name.
absl::Status CheckOrigin(const Request& request, bool loopback_only);

}  // namespace latentd::server::http
