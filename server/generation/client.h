// The client of one request, as its transport knows it.
#pragma once

#include <string>

#include "absl/time/time.h"

namespace latentd::server::generation {

struct Client {
  // Name for a fair share of the device, and for the highest priority that it may ask for.
  std::string caller;
  std::string peer;  // for the log: "ipv4:192.0.2.1:50000"
  // By the clock on the wall. Nothing is waited for beyond it; InfiniteFuture: without end.
  absl::Time deadline = absl::InfiniteFuture();
  // As of the W3C's trace context; empty: it belongs to no trace.
  std::string trace_parent, trace_state;
};

}  // namespace latentd::server::generation
