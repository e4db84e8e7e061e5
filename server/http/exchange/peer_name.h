// A peer as gRPC names it, which generation::HostOf reads.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"

namespace latentd::server::http {

// `address` is an IP address as text. Thread-safe; a free function.
inline std::string PeerName(const std::string& address, int port) {
  const bool is_v6 = address.find(':') != std::string::npos;
  return is_v6 ? absl::StrCat("ipv6:[", address, "]:", port)
               : absl::StrCat("ipv4:", address, ":", port);
}

}  // namespace latentd::server::http
