// The header of a safetensors file as it is written, before it is compared with the data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd::weights {

struct HeaderEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;    // none negative
  std::vector<int64_t> offsets;  // begin and end, relative to the data; none negative
};

struct SafetensorsHeader {
  // In the order of the text, of several with one name the last.
  std::vector<HeaderEntry> entries;
  // Entries of "__metadata__". Values longer than kMaxMetadataValueBytes are left out, as are those
  // that would make it more than kMaxMetadataBytes: pictures, statistics of training. Never left
  // out is kLoraConfigKey, without which a LoRA's weights have another scale.
  absl::flat_hash_map<std::string, std::string> metadata;
};

inline constexpr size_t kMaxMetadataValueBytes = size_t{16} << 10;
inline constexpr size_t kMaxMetadataBytes = size_t{256} << 10;  // keys too
inline constexpr absl::string_view kLoraConfigKey = "lora_adapter_metadata";
inline constexpr size_t kMaxLoraConfigBytes = size_t{8} << 20;
// The tags of the pictures that a LoRA was trained with, by kohya's scripts.
inline constexpr absl::string_view kTagsKey = "ss_tag_frequency";
inline constexpr size_t kMaxTagsBytes = size_t{1} << 20;

// INVALID_ARGUMENT: not JSON, or not of this form; kLoraConfigKey is longer than
// kMaxLoraConfigBytes; the message begins with `file`. The entry
// "__metadata__" may be null; fields that no entry needs are passed over. Accepts what the
// safetensors package accepts. Thread-safe.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text,
                                                         const std::string& file);

// Bytes of a name in a message: names of tensors differ in their ends.
inline constexpr size_t kNameBytes = 200;

}  // namespace latentd::weights
