#include "core/base/host_port.h"

#include "absl/strings/match.h"

namespace latentd {

std::string HostOf(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  const bool bracketed = absl::StartsWith(host, "[") && absl::EndsWith(host, "]");
  return bracketed ? host.substr(1, host.size() - 2) : host;
}

}  // namespace latentd
