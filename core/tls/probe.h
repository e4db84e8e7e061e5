// Why a connection to a TLS server fails. gRPC says only that the handshake did; this tries one and
// looks closer. It sends nothing else.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace latentd::tls {

struct ProbeOptions {
  std::string address;      // HOST:PORT, [HOST]:PORT
  std::string authorities;  // PEM; empty: the system's
  std::string server_name;  // the name that the certificate must have; empty: the address's host
  absl::Duration timeout = absl::Seconds(2);
};

// OK where the handshake succeeds; FAILED_PRECONDITION where the server does not speak TLS;
// PERMISSION_DENIED names its certificate and what is wrong with it; UNAVAILABLE where nothing can
// be said. Blocks.
absl::Status Probe(const ProbeOptions& options);

}  // namespace latentd::tls
