// The certificate that a client of TLS has shown.
//
// Thread-safe: free functions without state.
#pragma once

#include <openssl/ssl.h>

#include <string>
#include <vector>

namespace latentd::server::http {

struct PeerCertificate {
  // As PEM; empty: it has shown none.
  std::string certificate, chain;
  // Its subject alternative names, or, where it has none, its common name, as gRPC has them.
  std::vector<std::string> names;
};

PeerCertificate PeerOf(SSL* connection);

}  // namespace latentd::server::http
