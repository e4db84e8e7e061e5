#include "core/base/text/digest.h"

#include <xxhash.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

namespace latentd {

std::string Digest::ToString() const { return absl::StrFormat("%016x%016x", high, low); }

std::optional<Digest> Digest::FromString(absl::string_view text) {
  Digest digest;
  const bool numbers = text.size() == 32 && absl::SimpleHexAtoi(text.substr(0, 16), &digest.high) &&
                       absl::SimpleHexAtoi(text.substr(16), &digest.low);
  // SimpleHexAtoi takes capitals and signs too.
  if (!numbers || digest.ToString() != text) return std::nullopt;
  return digest;
}

Digest DigestOf(absl::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

}  // namespace latentd
