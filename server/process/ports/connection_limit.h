// How many connections the process takes at a time. gRPC has no such limit, and one that runs out
// of file descriptors stops listening for good, while everything else looks well: so connections
// beyond the limit are closed as they come, and some descriptors are always left for the rest.
//
// It holds for everything that listens through accept4, as gRPC does, or through Accept.
#pragma once

#include "absl/status/statusor.h"

namespace latentd::server::process {

// For what is no connection: files, the cache, what listens.
inline constexpr int kOtherDescriptors = 128;

// Raises the process' own limit on descriptors as far as needed and allowed, and takes at most
// `wanted` connections from now on. Returns how many are taken: fewer where the system allows
// fewer descriptors. FAILED_PRECONDITION where it allows none.
absl::StatusOr<int> LimitConnections(int wanted);

// As accept4, whose flags these are. Adds to `refused` the connections that it closed first, since
// they were beyond the limit. Thread-safe.
int Accept(int listener, int flags, int& refused);

}  // namespace latentd::server::process
