#include "server/http/exchange/target.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace latentd::server::http {
namespace {

bool IsHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), absl::ascii_isxdigit);
}

// The length of "http://host" at its beginning; 0: it has none.
size_t OriginSize(absl::string_view target) {
  for (const absl::string_view scheme : {"http://", "https://"}) {
    if (!absl::StartsWithIgnoreCase(target, scheme)) continue;
    return std::min(target.find_first_of("/?", scheme.size()), target.size());
  }
  return 0;
}

}  // namespace

void SetTarget(std::string target, Request& request) {
  const size_t origin = OriginSize(target);
  target.erase(0, origin);
  const size_t question = target.find('?');
  request.path = target.substr(0, question);
  if (origin > 0 && request.path.empty()) request.path = "/";
  request.query = question == std::string::npos ? "" : target.substr(question + 1);
}

std::string DecodePercent(absl::string_view text) {
  std::string decoded;
  while (!text.empty()) {
    const absl::string_view digits = text.substr(1, 2);
    const bool is_coded = text.front() == '%' && digits.size() == 2 && IsHex(digits);
    decoded += is_coded ? absl::HexStringToBytes(digits) : std::string(1, text.front());
    text.remove_prefix(is_coded ? 3 : 1);
  }
  return decoded;
}

}  // namespace latentd::server::http
