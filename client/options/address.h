// Addresses of servers, as users type them.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace latentd::client {

// OK for HOST:PORT, unix:PATH and gRPC's own schemes (dns:, ipv4:, ipv6:). Else INVALID_ARGUMENT,
// which says what would be right: a URL without its scheme, a host with its port.
absl::Status CheckAddress(absl::string_view address);

}  // namespace latentd::client
