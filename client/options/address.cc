#include "client/options/address.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/words/suggestions.h"
#include "core/base/text/text.h"

namespace latentd::client {
namespace {

constexpr char kUnix[] = "unix:";
constexpr char kUsualPort[] = "50051";

bool IsDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// gRPC takes a port that is too large modulo 65536, and a missing one to be 443.
bool HasPort(absl::string_view address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  return colon != absl::string_view::npos && colon > 0 &&
         absl::SimpleAtoi(address.substr(colon + 1), &port) && port >= 1 && port <= 65535;
}

// gRPC's schemes for what has a port.
absl::string_view WithoutScheme(absl::string_view address) {
  for (const absl::string_view scheme : {"dns:", "ipv4:", "ipv6:"}) {
    if (absl::ConsumePrefix(&address, scheme)) break;
  }
  return address;
}

absl::Status RefuseUrl(absl::string_view scheme, absl::string_view rest) {
  std::string address(rest.substr(0, rest.find_first_of("/?#")));
  if (!HasPort(address))
    address = absl::StrCat(address.empty() ? "HOST" : address, ":", kUsualPort);
  const bool is_tls = scheme == "https" || scheme == "grpcs";
  return absl::InvalidArgumentError(absl::StrCat(
      "is an address and no URL: leave ", Excerpt(scheme), ":// out",
      is_tls ? ", and add --tls" : "", ": --server ", Excerpt(address), is_tls ? " --tls" : ""));
}

// The address that was meant, where there can be no doubt; else empty.
std::string Correction(absl::string_view address) {
  if (IsDigits(address)) return absl::StrCat("127.0.0.1:", address);
  if (absl::StartsWith(address, "/")) return absl::StrCat(kUnix, address);
  const bool is_host = !address.empty() && address.find_first_of(":/ ") == absl::string_view::npos;
  return is_host ? absl::StrCat(address, ":", kUsualPort) : "";
}

absl::Status Refuse(absl::string_view address) {
  const std::string correction = Correction(address);
  return absl::InvalidArgumentError(
      absl::StrCat("must be HOST:PORT, with a port from 1 to 65535, or unix:PATH, not '",
                   Excerpt(address), "'", DidYouMean(Excerpt(correction))));
}

}  // namespace

absl::Status CheckAddress(absl::string_view address) {
  if (absl::StartsWith(address, kUnix)) {
    return address.size() + 1 > sizeof(kUnix) ? absl::OkStatus() : Refuse(address);
  }
  const absl::string_view named = WithoutScheme(address);
  const size_t scheme_end = named.find("://");
  if (scheme_end != absl::string_view::npos && named.size() == address.size()) {
    return RefuseUrl(absl::AsciiStrToLower(address.substr(0, scheme_end)),
                     address.substr(scheme_end + 3));
  }
  if (!HasPort(named)) return Refuse(address);
  const absl::string_view host = named.substr(0, named.rfind(':'));
  if (absl::StrContains(host, ':') && !absl::StartsWith(host, "[")) {
    return absl::InvalidArgumentError(absl::StrCat("put an IPv6 address between brackets: [",
                                                   Excerpt(host), "]", named.substr(host.size())));
  }
  return absl::OkStatus();
}

}  // namespace latentd::client
