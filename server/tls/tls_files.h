// The files of the ports' TLS.
#pragma once

#include <string>

namespace latentd::server::tls {

// PEM files; empty: not given.
struct TlsFiles {
  std::string certificate;  // and those between it and its authority
  std::string key;
  std::string client_authority;
  std::string operator_authority;  // authority of clients of admin_listen by TCP
};

}  // namespace latentd::server::tls
