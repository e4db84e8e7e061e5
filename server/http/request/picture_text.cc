#include "server/http/request/picture_text.h"

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace latentd::server::http {
namespace {

constexpr absl::string_view kBase64 = ";base64";

// The part of a data URL behind its comma.
absl::StatusOr<absl::string_view> DataOf(absl::string_view url) {
  const size_t comma = url.find(',');
  if (comma == absl::string_view::npos ||
      !absl::EndsWithIgnoreCase(url.substr(0, comma), kBase64)) {
    return absl::InvalidArgumentError(
        "must be base64 where it is a data URL: data:image/png;base64,...");
  }
  return url.substr(comma + 1);
}

}  // namespace

absl::StatusOr<std::string> PictureOf(absl::string_view text) {
  if (absl::StartsWithIgnoreCase(text, "http:") || absl::StartsWithIgnoreCase(text, "https:")) {
    return absl::InvalidArgumentError(
        "must be the picture itself, in base64 or a data: URL; this server fetches no URL");
  }
  absl::string_view data = text;
  if (absl::StartsWithIgnoreCase(text, "data:")) {
    const auto behind = DataOf(text);
    if (!behind.ok()) return behind.status();
    data = *behind;
  }
  std::string bytes;
  if (absl::Base64Unescape(data, &bytes)) return bytes;
  if (absl::WebSafeBase64Unescape(data, &bytes)) return bytes;
  return absl::InvalidArgumentError("is not base64");
}

}  // namespace latentd::server::http
