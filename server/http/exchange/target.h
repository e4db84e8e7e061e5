// The target of a request, as the first line of its head has it.
//
// Thread-safe: a free function without state.
#pragma once

#include <string>

#include "server/http/exchange/exchange.h"

namespace latentd::server::http {

// Sets path and query by "/path?query", or by "http://host/path?query", as proxies are asked.
void SetTarget(std::string target, Request& request);

}  // namespace latentd::server::http
