#include "core/base/digest.h"

#include <xxhash.h>

#include "absl/strings/str_format.h"

namespace latentd {

std::string Digest::ToString() const { return absl::StrFormat("%016x%016x", high, low); }

Digest DigestOf(absl::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

}  // namespace latentd
