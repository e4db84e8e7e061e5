#include "server/generation/caller.h"

#include <arpa/inet.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace latentd::server::generation {
namespace {

constexpr size_t kNetworkBytes = 8;

}  // namespace

std::string HostOf(absl::string_view peer) {
  const absl::string_view host = peer.substr(0, peer.rfind(':'));
  absl::string_view address = host;
  if (!absl::ConsumePrefix(&address, "ipv6:")) return std::string(host);
  if (!absl::ConsumePrefix(&address, "%5B")) absl::ConsumePrefix(&address, "[");
  if (!absl::ConsumeSuffix(&address, "%5D")) absl::ConsumeSuffix(&address, "]");
  in6_addr parsed = {};
  if (inet_pton(AF_INET6, std::string(address).c_str(), &parsed) != 1) return std::string(host);
  const absl::string_view bytes(reinterpret_cast<const char*>(parsed.s6_addr), kNetworkBytes);
  return absl::StrCat("ipv6:", absl::BytesToHexString(bytes));
}

std::string CallerOf(const std::vector<absl::string_view>& names) {
  return absl::StrJoin(names, ",", [](std::string* out, absl::string_view name) {
    out->append(absl::StrReplaceAll(name, {{",", "%2C"}}));
  });
}

}  // namespace latentd::server::generation
