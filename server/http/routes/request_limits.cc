#include "server/http/routes/request_limits.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/text/text.h"
#include "server/http/exchange/http_status.h"
#include "server/http/exchange/multipart.h"

namespace latentd::server::http {
namespace {

constexpr int64_t kMostBesidePicture = 256 << 10;
constexpr double kBytesPerSecond = 64 << 10;
constexpr absl::Duration kAnyBody = absl::Seconds(10), kLongestBody = absl::Minutes(5);

size_t CountOf(const Request& request, absl::string_view name) {
  return static_cast<size_t>(absl::c_count_if(request.headers, [&](const Header& header) {
    return absl::EqualsIgnoreCase(header.first, name);
  }));
}

absl::Status Malformed(absl::string_view why) {
  return WithReason(absl::InvalidArgumentError(why), "MALFORMED");
}

}  // namespace

int64_t MostBodyBytes(const Route& route, const Request& request, int64_t max_request_bytes) {
  if (!route.has_picture) return kMostBesidePicture;
  const bool form = IsMultipart(request.Find("content-type"));
  return (form ? max_request_bytes : (max_request_bytes + 2) / 3 * 4) + kMostBesidePicture;
}

absl::Status CheckBody(const Request& request, std::optional<uint64_t> length, int64_t most) {
  const absl::string_view coding = request.Find("content-encoding");
  if (!coding.empty() && !absl::EqualsIgnoreCase(coding, "identity")) {
    return WithReason(absl::InvalidArgumentError("a body with a Content-Encoding is not taken"),
                      kWrongMediaType);
  }
  if (!length || *length <= static_cast<uint64_t>(most)) return absl::OkStatus();
  return WithReason(absl::InvalidArgumentError(
                        absl::StrCat("the body has ", *length, " bytes, and may have ", most)),
                    kTooLarge);
}

absl::Duration TimeFor(int64_t bytes) {
  const absl::Duration time = absl::Seconds(static_cast<double>(bytes) / kBytesPerSecond);
  return std::min(kAnyBody + time, kLongestBody);
}

absl::Status CheckHead(const Request& request, unsigned version) {
  const size_t hosts = CountOf(request, "host");
  if (hosts > 1) return Malformed("Host is there more than once");
  if (hosts == 0 && version == 11) return Malformed("Host is missing");
  for (const Header& header : request.headers) {
    const bool is_coding = absl::EqualsIgnoreCase(header.first, "transfer-encoding");
    if (is_coding && version == 10) return Malformed("HTTP/1.0 has no Transfer-Encoding");
    if (!is_coding || absl::EqualsIgnoreCase(header.second, "chunked")) continue;
    return Malformed("a Transfer-Encoding but chunked is not taken");
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Time> DeadlineOf(const Request& request, absl::Time now) {
  constexpr char kName[] = "x-request-timeout";
  const absl::string_view text = request.Find(kName);
  if (text.empty()) return absl::InfiniteFuture();
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds) && std::isfinite(seconds) && seconds > 0) {
    return now + absl::Seconds(seconds);
  }
  return InvalidFields(
      {{kName, absl::StrCat("must be a number of seconds above 0, is ", latentd::Excerpt(text))}});
}

}  // namespace latentd::server::http
