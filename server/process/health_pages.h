// /healthz and /readyz, for probes and load balancers that speak plain HTTP: 200 with "ok" where
// the server is alive, or ready; else 503 and one line that says why not (health.h). GET and HEAD;
// another method gets 405.
#pragma once

#include "server/process/health.h"

struct mg_context;

namespace latentd::server::process {

// Adds them to a web server of civetweb, which `health` must outlive.
void AddHealthPages(mg_context& web_server, const Health& health);

}  // namespace latentd::server::process
