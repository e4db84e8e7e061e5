#include "server/http/routes/request_limits.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "server/http/exchange/http_status.h"
#include "server/http/exchange/multipart.h"

namespace latentd::server::http {
namespace {

constexpr int64_t kMostBesidePicture = 256 << 10;
constexpr double kBytesPerSecond = 64 << 10;
constexpr absl::Duration kAnyBody = absl::Seconds(10), kLongestBody = absl::Minutes(5);

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

absl::Time DeadlineOf(const Request& request, absl::Time now) {
  double seconds = 0;
  const bool says = absl::SimpleAtod(request.Find("x-request-timeout"), &seconds) &&
                    std::isfinite(seconds) && seconds > 0;
  return says ? now + absl::Seconds(seconds) : absl::InfiniteFuture();
}

}  // namespace latentd::server::http
