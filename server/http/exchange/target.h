// The target of a request, as the first line of its head has it.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "server/http/exchange/exchange.h"

namespace latentd::server::http {

// Sets path and query by "/path?query", or by "http://host/path?query", as proxies are asked.
void SetTarget(std::string target, Request& request);

// A part of a path or a query, in which "%2F" stands for "/" (RFC 3986), and "%" without two digits
// for itself.
std::string DecodePercent(absl::string_view text);

}  // namespace latentd::server::http
