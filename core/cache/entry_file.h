// The bytes of an entry's file (FORMAT.md): a head that says what the entry is, then the payload.
//
// Pure functions of bytes. Nothing here reads beyond what it is given, however wrong that is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/text/digest.h"

namespace latentd::cache {

// The kind of an entry's content; a directory of its own for each.
enum class Kind : uint8_t { kArtifact, kPackedWeight, kTensorDigests, kFinding };

inline constexpr Kind kKinds[] = {Kind::kArtifact, Kind::kPackedWeight, Kind::kTensorDigests,
                                  Kind::kFinding};

// "artifacts", "weights", "digests", "findings".
absl::string_view KindName(Kind kind);

// The payload starts at a multiple of this, so that mapped values are aligned for every device.
inline constexpr size_t kPayloadAlignment = 4096;
inline constexpr size_t kMaxKeyBytes = size_t{1} << 20;

// Views into the bytes that were parsed.
struct ParsedEntry {
  Kind kind = Kind::kArtifact;
  absl::string_view key;
  absl::string_view payload;
  Digest payload_digest;  // as the head says
};

// Everything before the payload. REQUIRES: key.size() <= kMaxKeyBytes.
std::string EncodeHead(Kind kind, absl::string_view key, absl::string_view payload);

// Checks a whole file except that the payload fits its checksum: the payload is not read. DATA_LOSS
// says what is wrong: cut short, extended, another format, a checksum that does not fit.
absl::StatusOr<ParsedEntry> ParseHead(absl::string_view file);

// Checks everything. What is accepted is what EncodeHead and the payload give, byte for byte.
absl::StatusOr<ParsedEntry> ParseEntry(absl::string_view file);

}  // namespace latentd::cache
