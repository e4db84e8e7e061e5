// Addresses of --listen, and why listening there can fail: gRPC says only that it did.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace latentd::server::process {

// True of unix:PATH.
bool IsUnixSocket(const std::string& address);

// OK unless another process listens on the Unix socket `address` (unix:PATH): gRPC would take its
// place without a word. Other addresses are OK.
absl::Status CheckUnixSocketIsFree(const std::string& address);

// OK if a Unix socket of any port (core/base/process/admin_socket.h) can be made in `folder`, else
// FAILED_PRECONDITION with the reason. Makes one and removes it.
absl::Status CheckCanHoldSockets(const std::string& folder);

// Tries what gRPC failed to do with HOST:PORT or unix:PATH: FAILED_PRECONDITION with the system's
// reason.
absl::Status ExplainListenFailure(const std::string& address);

}  // namespace latentd::server::process
