#include "server/http/exchange/origin.h"

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

}  // namespace

absl::Status CheckOrigin(const Request& request, bool loopback_only) {
  const absl::string_view host = request.Find("host");
  if (loopback_only && !host.empty() && !IsOfThisMachine(host)) {
    return WithReason(absl::InvalidArgumentError(
                          "this server listens on this machine alone, and takes requests for "
                          "localhost, 127.0.0.1 and [::1]"),
                      kWrongHost);
  }
  if (request.method != "POST") return absl::OkStatus();
  const absl::string_view origin = request.Find("origin");
  const bool other = !origin.empty() && !absl::EqualsIgnoreCase(HostOfOrigin(origin), host);
  if (!other && request.Find("sec-fetch-site") != "cross-site") return absl::OkStatus();
  return absl::PermissionDeniedError("pages of other sites may not ask this server");
}

}  // namespace latentd::server::http
