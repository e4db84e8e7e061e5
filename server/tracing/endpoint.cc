#include "server/tracing/endpoint.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace latentd::server::tracing {
namespace {

constexpr absl::string_view kPlainText = "http://";
constexpr absl::string_view kTls = "https://";
constexpr int kDefaultPort = 4317;
constexpr int kMaxPort = 65535;

// A name, an address of version 4, or one of version 6 in brackets.
bool IsHost(absl::string_view host) {
  const bool bracketed = absl::ConsumePrefix(&host, "[");
  if (bracketed && !absl::ConsumeSuffix(&host, "]")) return false;
  return !host.empty() && std::all_of(host.begin(), host.end(), [&](unsigned char c) {
    return absl::ascii_isalnum(c) || absl::StrContains(bracketed ? ".:%" : "._-", c);
  });
}

// 0: none.
int PortOf(absl::string_view digits) {
  int port = 0;
  const bool is_number = std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) &&
                         absl::SimpleAtoi(digits, &port);
  return is_number && port <= kMaxPort ? port : 0;
}

}  // namespace

std::optional<Endpoint> ParseEndpoint(absl::string_view text) {
  const bool tls = absl::ConsumePrefix(&text, kTls);
  const bool is_url = tls || absl::ConsumePrefix(&text, kPlainText);
  if (is_url) absl::ConsumeSuffix(&text, "/");
  const size_t colon = text.rfind(':');
  const bool has_port = colon != text.npos && !absl::EndsWith(text, "]");
  if (!is_url && !has_port) return std::nullopt;
  const absl::string_view host = has_port ? text.substr(0, colon) : text;
  const int port = has_port ? PortOf(text.substr(colon + 1)) : kDefaultPort;
  if (!IsHost(host) || port == 0) return std::nullopt;
  return Endpoint{absl::StrCat(host, ":", port), tls};
}

}  // namespace latentd::server::tracing
