#include "core/base/text/host_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "absl/strings/match.h"

namespace latentd {

std::string HostOf(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  const bool bracketed = absl::StartsWith(host, "[") && absl::EndsWith(host, "]");
  return bracketed ? host.substr(1, host.size() - 2) : host;
}

bool IsLoopback(const std::string& address) {
  const std::string host = HostOf(address);
  in_addr v4 = {};
  if (inet_aton(host.c_str(), &v4) != 0) return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
  in6_addr v6 = {};
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return host == "localhost";
}

}  // namespace latentd
