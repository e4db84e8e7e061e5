// What server/ counts of generation calls; the engine counts what happens to a request inside.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/metrics/registry.h"

namespace latentd::server {

// A call that has ended.
struct EndedCall {
  std::string method;       // "Generate"
  absl::StatusCode code;    // as the client sees it
  bool accepted = false;    // the engine took it
  absl::Status status;      // why not
  std::string bucket;       // that it ran in, "256x256"; empty: it never ran
  absl::Duration duration;  // since it arrived
};

// The engine has taken a call: it is in flight.
void CountAccepted(metrics::Registry& registry);

void CountEnded(metrics::Registry& registry, const EndedCall& call);

}  // namespace latentd::server
