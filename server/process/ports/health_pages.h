// /healthz and /readyz, for probes and load balancers that speak plain HTTP: 200 with "ok" where
// the server is alive, or ready; else 503 and one line that says why not (health.h).
#pragma once

#include <vector>

#include "server/process/lifetime/health.h"
#include "server/process/ports/http_pages.h"

namespace latentd::server::process {

// `health` must outlive them.
std::vector<Page> HealthPages(const Health& health);

}  // namespace latentd::server::process
