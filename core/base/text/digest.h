// The 128-bit XXH3 digest that names content: graphs, tensors, artifacts. Fast enough to read 11 GB
// of weights at the speed of memory. It is no defence against an attacker who makes collisions on
// purpose.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace latentd {

struct Digest {
  uint64_t high = 0;
  uint64_t low = 0;

  // 32 lower-case hexadecimal digits.
  std::string ToString() const;
  // Reads exactly what ToString gives.
  static std::optional<Digest> FromString(absl::string_view text);

  auto operator<=>(const Digest&) const = default;

  template <typename H>
  friend H AbslHashValue(H state, const Digest& digest) {
    return H::combine(std::move(state), digest.high, digest.low);
  }
};

Digest DigestOf(absl::string_view bytes);

}  // namespace latentd
