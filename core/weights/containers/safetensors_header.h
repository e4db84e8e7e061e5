// The header of a safetensors file as it is written, before it is compared with the data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd::weights {

struct HeaderEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;    // none negative
  std::vector<int64_t> offsets;  // begin and end, relative to the data; none negative
};

// The tensors in the order of the text, of several with one name the last. INVALID_ARGUMENT: not
// JSON, or not of this form; the message begins with `file`. The entry "__metadata__" (text to
// text, or null) is checked and left out; fields that no entry needs are passed over. Accepts what
// the safetensors package accepts. Thread-safe.
absl::StatusOr<std::vector<HeaderEntry>> ParseSafetensorsHeader(absl::string_view text,
                                                                const std::string& file);

// Bytes of a name in a message: names of tensors differ in their ends.
inline constexpr size_t kNameBytes = 200;

}  // namespace latentd::weights
