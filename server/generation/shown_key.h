// Keys that calls show, whatever transport they came by.
//
// Thread-safe: free functions without state.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/generation/active_calls.h"
#include "server/generation/request_metrics.h"

namespace latentd::server::generation {

// The values of a call's metadata or headers "authorization" and "x-api-key"; empty: it has none.
struct ShownKey {
  absl::string_view authorization, api_key;
};

// The key's holder. UNAUTHENTICATED, which is counted: it is no key of this server's. REQUIRES:
// `environment` asks callers for keys.
absl::StatusOr<KeyHolder> CheckKey(const CallEnvironment& environment, Transport transport,
                                   const ShownKey& shown);

}  // namespace latentd::server::generation
