#include "server/process/logs/handshake_failure.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace latentd::server::process {
namespace {

constexpr absl::string_view kBeginning = "Handshake failed with fatal error ";

struct Explanation {
  absl::string_view openssl;
  absl::string_view words;
};

constexpr Explanation kExplanations[] = {
    {"wrong version number", "the client does not speak TLS"},
    {"http request", "the client does not speak TLS"},
    {"unsupported protocol", "the client speaks only versions of TLS that are older than 1.2"},
    {"no shared cipher", "the client has no cipher that this server takes"},
    {"alert unknown ca", "the client does not trust the authority of this server's certificate"},
    {"alert certificate expired", "to the client, this server's certificate has expired"},
    {"alert bad certificate", "the client refuses this server's certificate"},
    {"alert certificate unknown", "the client refuses this server's certificate"},
};

}  // namespace

std::optional<std::string> ExplainHandshakeFailure(absl::string_view message) {
  if (!absl::ConsumePrefix(&message, kBeginning)) return std::nullopt;
  const absl::string_view error = absl::StripSuffix(absl::StripAsciiWhitespace(message), ".");
  for (const Explanation& known : kExplanations) {
    if (absl::StrContains(error, known.openssl)) return absl::StrCat(known.words, " (", error, ")");
  }
  return std::string(error);
}

}  // namespace latentd::server::process
