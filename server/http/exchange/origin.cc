#include "server/http/exchange/origin.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "core/base/errors/error_details.h"
#include "core/base/text/host_port.h"
#include "server/http/exchange/http_status.h"

namespace latentd::server::http {
namespace {

// "https://host:1" without its scheme.
absl::string_view HostOfOrigin(absl::string_view origin) {
  const size_t scheme = origin.find("://");
  return scheme == absl::string_view::npos ? origin : origin.substr(scheme + 3);
}

bool IsOfThisMachine(absl::string_view host) {
  std::string address = absl::AsciiStrToLower(host);
  const size_t bracket = address.rfind(']');
  const size_t from = bracket == std::string::npos ? 0 : bracket;
  if (address.find(':', from) == std::string::npos) address += ":80";
  return IsLoopback(address);
}

bool IsAllowed(absl::string_view origin, const Origins& allowed) {
  return !origin.empty() && std::any_of(allowed.begin(), allowed.end(), [&](const auto& each) {
    return each == "*" || each == origin;
  });
}

}  // namespace

absl::Status CheckOrigin(const Request& request, bool loopback_only, const Origins& allowed) {
  const absl::string_view host = request.Find("host");
  if (loopback_only && !host.empty() && !IsOfThisMachine(host)) {
    return WithReason(absl::InvalidArgumentError(
                          "this server listens on this machine alone, and takes requests for "
                          "localhost, 127.0.0.1 and [::1]"),
                      kWrongHost);
  }
  if (request.method != "POST" && request.method != "DELETE") return absl::OkStatus();
  const absl::string_view origin = request.Find("origin");
  if (IsAllowed(origin, allowed)) return absl::OkStatus();
  const bool other = !origin.empty() && !absl::EqualsIgnoreCase(HostOfOrigin(origin), host);
  if (!other && request.Find("sec-fetch-site") != "cross-site") return absl::OkStatus();
  return absl::PermissionDeniedError("pages of other sites may not ask this server");
}

std::vector<Header> CorsHeaders(const Request& request, const Origins& allowed) {
  if (allowed.empty()) return {};
  const absl::string_view origin = request.Find("origin");
  std::vector<Header> headers = {{"Vary", "Origin"}};
  if (!IsAllowed(origin, allowed)) return headers;
  headers.emplace_back("Access-Control-Allow-Origin", std::string(origin));
  headers.emplace_back("Access-Control-Expose-Headers", "x-request-id, retry-after-ms");
  return headers;
}

bool IsPreflight(const Request& request, const Origins& allowed) {
  return request.method == "OPTIONS" && !request.Find("access-control-request-method").empty() &&
         IsAllowed(request.Find("origin"), allowed);
}

Answer PreflightAnswer() {
  return {.code = 204,
          .content_type = "",
          .headers = {{"Access-Control-Allow-Methods", "GET, POST, DELETE"},
                      {"Access-Control-Allow-Headers",
                       "authorization, content-type, x-api-key, x-request-timeout"},
                      {"Access-Control-Max-Age", "600"}}};
}

}  // namespace latentd::server::http
