// Parts that connections share: routes, limits, and the server's other parts.
#pragma once

#include <atomic>
#include <cstdint>

#include "server/generation/active_calls.h"
#include "server/http/body_budget.h"
#include "server/http/calls/running_calls.h"
#include "server/http/exchange/origin.h"
#include "server/http/http_metrics.h"
#include "server/http/routes/router.h"
#include "server/tls/client_check.h"

namespace latentd::server::http {

// Outlives the connections. Thread-safe.
struct Service {
  generation::CallEnvironment environment;
  HttpMetrics metrics;
  Router router;
  RunningCalls& running;
  int64_t max_request_bytes;            // most of a request, whose picture is no text
  tls::ClientCheck* clients = nullptr;  // null: any client
  bool loopback_only = false;           // it listens on this machine alone
  bool trusts_all = false;              // callers of whom nothing is asked run the server
  Origins cors_origins;                 // origin.h
  BodyBudget bodies;
  std::atomic<bool> draining = false;
};

}  // namespace latentd::server::http
