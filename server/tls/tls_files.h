// Where the ports' TLS comes from.
#pragma once

#include <string>

namespace latentd::server::tls {

// PEM files; empty: not given.
struct TlsFiles {
  std::string certificate;  // and those between it and its authority
  std::string key;
  std::string client_authority;
  std::string operator_authority;  // of those who call admin_listen by TCP
};

}  // namespace latentd::server::tls
