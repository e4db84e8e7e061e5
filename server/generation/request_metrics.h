// Metrics of generation calls in server/: those it refuses before the engine is asked, how each
// call ended, and keys that are refused. The engine counts the rest.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/metrics/registry.h"

namespace latentd::server::generation {

struct EndedCall {
  std::string method;       // "Generate"
  absl::StatusCode code;    // as the client sees it
  bool accepted = false;    // the engine took it
  std::string bucket;       // bucket that it ran in, "256x256"; empty: it never ran
  absl::Duration duration;  // since it arrived
};

void CountRefused(metrics::Registry& registry, const absl::Status& status);
void CountEnded(metrics::Registry& registry, const EndedCall& call);

enum class Transport : uint8_t { kGrpc, kHttp };
// A caller has shown a key that is none of this server's, or none at all.
void CountRefusedKey(metrics::Registry& registry, Transport transport, bool has_shown_one);

}  // namespace latentd::server::generation
